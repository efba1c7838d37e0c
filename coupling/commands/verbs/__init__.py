"""The commands and their arguments, one file each; the implementation is imported when a command is called."""
