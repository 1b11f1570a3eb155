"""Tables whose changes wait: parked, worked off, given up."""
