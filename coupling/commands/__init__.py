"""What a person calls: the command line, and what each command does."""
