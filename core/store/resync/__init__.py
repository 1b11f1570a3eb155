"""Tables that are copied again, or are going to be."""
