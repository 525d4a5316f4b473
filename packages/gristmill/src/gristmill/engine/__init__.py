"""What the client does, written once as flows: generators that yield what is to be done.

A flow never runs a command itself; `flows.drive` does for the blocking client, `flows.adrive` for
the asynchronous one.
"""
