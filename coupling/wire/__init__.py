"""Protocol between learner and workers: messages, addresses, keys, connection files; specified in PROTOCOL.md."""
