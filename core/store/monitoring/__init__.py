"""What people are shown of sources: how they are, how they fared, what was said of it."""
