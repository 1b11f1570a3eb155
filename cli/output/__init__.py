"""How results are shown: on a terminal, in a pipe, as JSON."""
