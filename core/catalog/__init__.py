"""What the catalogues of sources and target say."""
