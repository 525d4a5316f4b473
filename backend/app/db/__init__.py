"""Tables, engine and sessions."""
