"""How user code is shut in: bubblewrap's arguments, the system call filter, control groups."""
