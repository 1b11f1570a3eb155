"""pgrepl: many PostgreSQL databases replicated into one, exactly and live.

This folder is the kernel, imported as ``pgrepl``. It imports no other folder of the project;
every other folder may import it.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
