"""Whether code of a source may stand on the target."""
