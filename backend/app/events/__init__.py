"""What browsers hear while it happens: the hub of committed events, and its WebSocket."""
