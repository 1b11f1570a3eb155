"""How far receiving and replay are; every move is fenced."""
