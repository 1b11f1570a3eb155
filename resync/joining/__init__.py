"""Tables that the target never had: made, filled out of sight, shown when whole, and their keys."""
