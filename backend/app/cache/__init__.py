"""The cache of finished outputs: its files, its rows, what may be cleaned."""
