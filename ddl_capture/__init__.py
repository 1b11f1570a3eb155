"""Capture DDL on a source, so that schema changes follow by themselves."""

__all__: list[str] = []
