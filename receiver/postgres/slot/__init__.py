"""The slot of a source: the connection to it, the ways to read it, and which of them when."""
