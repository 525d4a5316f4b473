"""What administrators see and turn while everything runs."""
