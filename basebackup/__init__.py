"""Copy a source into the target at one exact LSN."""

__all__: list[str] = []
