"""Commands that look and change nothing: how sources fare, and whether copies are equal."""
