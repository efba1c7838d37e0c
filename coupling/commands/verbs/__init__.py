"""The commands with their arguments, a file each; what they do is imported when they are called."""
