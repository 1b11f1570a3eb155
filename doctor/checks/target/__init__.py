"""What is judged of the target, of what it has of sources, and of Spark."""
