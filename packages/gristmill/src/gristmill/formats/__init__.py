"""BEAT's JSON declarations: read, checked, written."""
