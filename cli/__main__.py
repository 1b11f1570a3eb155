"""``python -m pgrepl.cli`` is ``pgrepl``."""

from pgrepl.cli.main import main

if __name__ == "__main__":
    main()
