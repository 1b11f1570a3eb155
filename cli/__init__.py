"""The command line: one module per command; the only place that assembles, prints and exits."""

__all__: list[str] = []
