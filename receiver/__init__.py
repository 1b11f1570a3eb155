"""Stream a source's committed transactions into the spool on the target."""

__all__: list[str] = []
