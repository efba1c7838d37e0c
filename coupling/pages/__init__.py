"""Pages about runs for a browser: a report, and a training as it goes."""
