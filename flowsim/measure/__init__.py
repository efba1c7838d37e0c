"""What papers plot: time series, statistics of fields, spectra, derived fields and loads along surfaces."""
