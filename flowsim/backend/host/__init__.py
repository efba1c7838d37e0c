"""Host-side access to a batch of flows, with a module for each group of quantities that users read and write."""
