"""Web pages about runs: a report, and a live view of a training."""
