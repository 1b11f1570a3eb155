"""The loops that receive: one streams, one pulls a backlog, in turns."""
