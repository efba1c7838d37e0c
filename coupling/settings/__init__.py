"""The settings of a run: their models, the shipped presets, and the sentences that say what is wrong with them."""
