"""The server's side of the worker protocol."""
