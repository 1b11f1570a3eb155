"""Sessions on servers: how they are opened, locked and what their errors mean."""
