"""What the event triggers wrote, as statements and values. Pure."""
