"""The tasks of the NERS paper (Oh et al. 2021), and the one that it made for itself."""
