"""Files of records in a folder that grows, received line by line."""
