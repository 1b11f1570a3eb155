"""The replicated tables: their states, their copies, what is noted of them."""
