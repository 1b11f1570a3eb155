#!/bin/sh
# Set up everything that pgrepl's demo and tests need, and nothing that is there already:
#   PostgreSQL 15 or newer with wal2json and pgbench, a Java runtime 17 or newer, Python 3.11 or
#   newer with venv, a virtual environment .venv with the versions of requirements/dev.txt, and
#   the jars of Apache Kafka in the cache of the user.
# Under CI=true an installed PostgreSQL is brought to the newest minor version of its packages.
# scripts/setup.sh browser also installs chromium, which only the tests need.
# Works as root, and as an ordinary user with sudo. Run it as often as you like.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$1" >&2; shift; for line; do printf '  %s\n' "$line" >&2; done; exit 1; }

# --- what is there ---------------------------------------------------------------------------

# The major version of an installed server that has wal2json; 15 first, then the newest.
server_with_wal2json() {
    for major in 15 $(installed_servers | sort -rn); do
        [ "$major" -ge 15 ] || continue
        [ -x "/usr/lib/postgresql/$major/bin/initdb" ] || continue
        [ -e "/usr/lib/postgresql/$major/lib/wal2json.so" ] && { echo "$major"; return; }
    done
    # Elsewhere than on Debian and Ubuntu the server is found through its own pg_config.
    if command -v initdb >/dev/null && command -v pg_config >/dev/null &&
        [ -e "$(pg_config --pkglibdir)/wal2json.so" ]; then
        pg_config --version | sed 's/[^0-9]*\([0-9]*\).*/\1/'
    fi
}

installed_servers() {
    for dir in /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$dir" ] && basename "$(dirname "$(dirname "$dir")")"
    done 2>/dev/null
}

# Spark takes the Java of JAVA_HOME, and only without it the one on PATH.
java_major() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/java}
    [ -n "$java" ] || java=$(command -v java || true)
    major=0
    [ -z "$java" ] || major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    echo "${major:-0}"
}

# The first Python that is new enough and can make virtual environments.
python_with_venv() {
    for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3}; do
        command -v "$python" >/dev/null || continue
        "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
            2>/dev/null && { command -v "$python"; return; }
    done
}

# --- what is missing -------------------------------------------------------------------------

updated=
apt_install() {
    say "apt-get install $*"
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "installing packages needs root, and there is no sudo" \
            "Run as root: apt-get install $*" "and then: make setup"
        as_root=sudo
    fi
    if [ -z "$updated" ]; then
        $as_root apt-get update -qq >/dev/null || say "apt-get update failed; trying all the same"
        updated=yes
    fi
    log=$(mktemp)
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
        >"$log" 2>&1 || { cat "$log" >&2; die "apt-get install $* failed"; }
    rm -f "$log"
}

can_install() { apt-cache show "$1" 2>/dev/null | grep -q '^Package:'; }

# An installed server gets the plugin of its own version.
install_postgresql() {
    for major in 15 $(installed_servers | sort -rn); do
        [ "$major" -ge 15 ] && [ -x "/usr/lib/postgresql/$major/bin/initdb" ] || continue
        apt_install "postgresql-$major-wal2json"
        return
    done
    refresh_package_lists
    for major in 15 16 17 18; do
        if can_install "postgresql-$major" && can_install "postgresql-$major-wal2json"; then
            without_main_cluster apt_install "postgresql-$major" "postgresql-$major-wal2json"
            return
        fi
    done
    die "this system's packages have no PostgreSQL 15 or newer with wal2json" \
        "Add the PostgreSQL project's package repository: apt-get install postgresql-common," \
        "then run the script in /usr/share/postgresql-common/pgdg/, and make setup again."
}

refresh_package_lists() {
    if [ "$(id -u)" -eq 0 ]; then apt-get update -qq >/dev/null || true; updated=yes
    elif command -v sudo >/dev/null; then sudo apt-get update -qq >/dev/null || true; updated=yes; fi
}

# Debian starts a server on port 5432 when the package is first installed. Nobody asked for one.
without_main_cluster() {
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    conf=/etc/postgresql-common/createcluster.d/pgrepl-setup.conf
    $as_root mkdir -p "$(dirname "$conf")"
    trap '$as_root rm -f "$conf"' EXIT
    echo 'create_main_cluster = false' | $as_root tee "$conf" >/dev/null
    "$@"
    $as_root rm -f "$conf"
    trap - EXIT
}

# A newcomer gets the newest minor version, so CI tests that one. A person's machine is never upgraded
# without being asked.
upgrade_postgresql() {
    major=$(server_with_wal2json)
    dpkg-query -W "postgresql-$major" >/dev/null 2>&1 || return 0
    [ -n "$updated" ] || refresh_package_lists
    before=$(server_version "$major")
    apt_install --only-upgrade "postgresql-$major" "postgresql-client-$major" "postgresql-$major-wal2json"
    after=$(server_version "$major")
    [ "$before" = "$after" ] || say "upgraded PostgreSQL from $before to $after"
}

server_version() { "/usr/lib/postgresql/$1/bin/postgres" --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/'; }

install_packages() {
    [ -n "$(server_with_wal2json)" ] || install_postgresql
    [ "${CI:-}" != true ] || upgrade_postgresql
    [ "$(java_major)" -ge 17 ] || install_java
    [ -n "$(python_with_venv)" ] || install_python
    # The tests look at the page of pgrepl monitor in a real browser; nothing else needs one.
    [ "${1:-}" != browser ] || command -v chromium >/dev/null || apt_install chromium
}

install_java() {
    [ -z "${JAVA_HOME:-}" ] || die "JAVA_HOME leads to no Java 17 or newer: $JAVA_HOME" \
        "Unset it, or set it to another runtime; then: make setup"
    [ -n "$updated" ] || refresh_package_lists
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        if can_install "$package"; then apt_install "$package"; return; fi
    done
    die "this system's packages have no Java 17 or newer" "Install one, and set JAVA_HOME."
}

install_python() {
    [ -z "${PYTHON:-}" ] || die "PYTHON is no Python 3.11 or newer with venv: $PYTHON"
    [ -n "$updated" ] || refresh_package_lists
    if /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        ! can_install python3.11; then
        apt_install python3 python3-venv
    else
        apt_install python3.11 python3.11-venv
    fi
    [ -n "$(python_with_venv)" ] || die "Python 3.11 or newer with venv is needed" \
        "Install one and name it: PYTHON=/path/to/python3 make setup"
}

explain_other_system() {
    [ -n "$(server_with_wal2json)" ] && [ "$(java_major)" -ge 17 ] &&
        [ -n "$(python_with_venv)" ] && return
    die "this is neither Debian nor Ubuntu; please install what is missing:" \
        "PostgreSQL 15 or newer with wal2json: $(server_with_wal2json | sed 's/^/there, version /' | grep . || echo missing)" \
        "Java 17 or newer: $(java_major | sed 's/^0$/missing/; s/^[1-9]/version &/')" \
        "Python 3.11 or newer with venv: $(python_with_venv | grep . || echo missing)" \
        "On Fedora or Red Hat: dnf install postgresql-server postgresql-contrib wal2json java-17-openjdk-headless python3.11" \
        "With Homebrew: brew install postgresql@15 openjdk@17 python@3.12, and build wal2json from its source" \
        "Then: make setup"
}

# --- the virtual environment -----------------------------------------------------------------

checksum() { cksum | cut -d ' ' -f 1; }

install_environment() {
    # Scripts in .venv name its folder, so that it does not survive a move.
    wanted=$({ pwd; cat requirements/dev.txt; } | checksum)
    if [ "$(cat .venv/requirements.done 2>/dev/null)" != "$wanted" ]; then
        python=$(python_with_venv)
        say "making .venv with $("$python" --version) and the packages of requirements/dev.txt"
        "$python" -m venv --clear .venv
        .venv/bin/python -m pip install -q --disable-pip-version-check -r requirements/dev.txt \
            2>.venv/pip.log || { cat .venv/pip.log >&2; die "pip could not install requirements/dev.txt"; }
        echo "$wanted" >.venv/requirements.done
        rm -f .venv/pgrepl.done
    fi
    # The editable install is a tree of links, so that type checkers see through it: it is made again
    # when a file comes or goes. What is compiled is compiled again when it changed.
    wanted=$({ pwd; cat pyproject.toml core/native/*.[ch]; find $(package_folders) -name '*.py' -o -name '*.sql' -o -path '*/page/*' | LC_ALL=C sort; } | checksum)
    if [ "$(cat .venv/pgrepl.done 2>/dev/null)" != "$wanted" ]; then
        say "installing pgrepl itself into .venv, editable"
        rm -rf build core/native/*.so
        .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-index \
            --no-build-isolation --config-settings editable_mode=strict -e . \
            2>.venv/pip.log || { cat .venv/pip.log >&2; die "pip could not install pgrepl"; }
        echo "$wanted" >.venv/pgrepl.done
    fi
}

package_folders() { sed -n 's/^"pgrepl[^=]*" = "\([a-z_]*\)"$/\1/p' pyproject.toml; }

# --- Kafka -----------------------------------------------------------------------------------

# The broker of tests and demo; the same version as throwaway/broker.py.
kafka_version=4.3.1

# Spark brings a program that fetches jars with all that they need.
install_kafka() {
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/pgrepl
    [ ! -d "$cache/kafka-$kafka_version" ] || return 0
    say "fetching Apache Kafka $kafka_version into $cache"
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/kafka-fetch.XXXXXX")
    ivy=$(echo .venv/lib/python*/site-packages/pyspark/jars/ivy-*.jar)
    for module in "org.apache.kafka kafka_2.13 $kafka_version" "org.slf4j slf4j-simple 1.7.36"; do
        # shellcheck disable=SC2086  three words
        "${JAVA_HOME:+$JAVA_HOME/bin/}java" -jar "$ivy" -error -cache "$part/ivy" -confs default \
            -dependency $module -retrieve "$part/jars/[artifact]-[revision].[ext]" \
            >"$part/log" 2>&1 || { cat "$part/log" >&2; rm -rf "$part"; die "Kafka $kafka_version could not be fetched"; }
    done
    # Whole or not there: two of us may fetch at once.
    mv -T "$part/jars" "$cache/kafka-$kafka_version" 2>/dev/null || [ -d "$cache/kafka-$kafka_version" ]
    rm -rf "$part"
}

# ---------------------------------------------------------------------------------------------

if command -v apt-get >/dev/null; then install_packages "${1:-}"; else explain_other_system; fi
install_environment
install_kafka
