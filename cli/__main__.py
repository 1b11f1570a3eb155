"""Where ``pgrepl`` and ``python -m pgrepl.cli`` begin."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the program, or say which of its own files cannot be read."""
    try:
        from pgrepl.cli.main import main as run
    except (OSError, ImportError) as exc:
        from pgrepl.cli.system_refusal import refusal_of

        error = refusal_of(exc)
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        sys.exit(error.exit_code)
    run()


if __name__ == "__main__":
    main()
