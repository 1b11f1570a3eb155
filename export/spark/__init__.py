"""Spark's data source over the spool."""

from pgrepl.export.spark.data_source import PgreplDataSource

__all__ = ["PgreplDataSource"]
