"""Action distributions: sampling, densities, divergences and importance weights."""
