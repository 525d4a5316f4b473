"""Polls for jobs, runs them in a sandbox and reports; a client of the server, nothing more."""
