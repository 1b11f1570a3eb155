"""What is wrong with a source, judged over facts."""
