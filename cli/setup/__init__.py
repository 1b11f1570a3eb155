"""Commands before anything is replicated: configuration, what servers need, services, the demo."""
