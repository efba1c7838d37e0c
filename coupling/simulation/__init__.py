"""The solver alone: a flow from a YAML file or a preset, its files and its film."""
