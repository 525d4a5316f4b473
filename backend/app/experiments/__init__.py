"""Experiments: made, checked, planned into blocks, started, stopped, looked at, deleted."""
