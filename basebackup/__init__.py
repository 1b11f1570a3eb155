"""Copy a source into the target, exactly as it is at one position of its WAL."""

__all__: list[str] = []
