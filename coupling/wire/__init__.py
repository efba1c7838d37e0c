"""What learner and workers agree on: messages, addresses, keys, connection files; PROTOCOL.md is its document."""
