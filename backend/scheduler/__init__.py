"""Decides what runs where, and carries the decisions out."""
