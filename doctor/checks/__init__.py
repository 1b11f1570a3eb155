"""What the doctor judges: facts in, findings out."""
