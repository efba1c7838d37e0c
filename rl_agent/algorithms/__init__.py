"""The learning algorithms, one folder each.

``config.py`` defines the settings, their defaults and how they are fitted to a run, and registers the algorithm.
``loss.py`` defines the actor and the loss as written in the paper; it is imported when an agent is created.
``gradient.py``, if present, has the analytic gradient.
"""
