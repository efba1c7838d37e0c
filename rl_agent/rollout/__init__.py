"""Acting: open episodes, exploration, normalization, statistics and seeds."""
