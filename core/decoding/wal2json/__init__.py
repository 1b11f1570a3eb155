"""wal2json's format 2."""
