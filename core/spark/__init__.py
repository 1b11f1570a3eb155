"""Spark sessions, and our own package for their executors."""
