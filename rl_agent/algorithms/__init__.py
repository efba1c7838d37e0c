"""The learning rules, a folder for each.

``config.py`` has the settings, their defaults and their rules for a run, and registers the algorithm; ``loss.py`` has
what acts and the loss as the paper writes it, and is imported when an agent is made; ``gradient.py`` has the analytic
gradient, where there is one.
"""
