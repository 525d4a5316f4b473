"""The command line `gristmill`."""
