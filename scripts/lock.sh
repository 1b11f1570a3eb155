#!/bin/sh
# Pin the newest versions that pyproject.toml allows in requirements/dev.txt.
set -eu
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check '.[dev]' 2>"$folder/log" || { cat "$folder/log" >&2; exit 1; }
{
    echo "# The versions that the tests run with. Made by: make lock"
    "$folder/venv/bin/pip" freeze --all --exclude pgrepl --exclude pip
} >requirements/dev.txt
