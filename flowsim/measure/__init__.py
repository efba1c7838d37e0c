"""Measurements: time series, field statistics, spectra, derived fields and surface loads."""
