"""One function over many arguments at once: by processes of our own here, by Spark on a cluster."""

from pgrepl.parallel.workers import Workers, start_workers

__all__ = ["Workers", "start_workers"]
