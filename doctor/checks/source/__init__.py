"""What is judged of a source: its server, tables, capture, output plugin, or topics and files."""
