"""The Python environment executable: runs one block's algorithm inside the sandbox."""
