"""Copy a source into the target, exactly as it is at one position of its WAL.

Names are imported from the modules that have them: a process that only copies starts in half the
time without the rest.
"""
