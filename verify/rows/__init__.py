"""Rows compared: cut into pieces, by checksums, and looked at again where they differ."""
