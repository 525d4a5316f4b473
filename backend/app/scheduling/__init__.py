"""The scheduler's ports on top of the database: its store, and who may schedule."""
