"""A batch of flows as the host sees it, a module for each thing that a user reads and writes."""
