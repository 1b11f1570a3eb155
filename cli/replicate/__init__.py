"""Commands that move rows, from the first copy of a source to its removal."""
