"""What is known of the formats that changes arrive in, one folder for each."""
