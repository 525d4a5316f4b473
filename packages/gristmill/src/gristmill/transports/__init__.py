"""The ways to run a command: here, or over SSH. The only I/O of the library."""
