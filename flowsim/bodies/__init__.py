"""Bodies: their shapes, how they move, and swimmers."""

from flowsim.bodies.shapes import Body, Disk, Ellipse, HalfDisk, SignedDistance, Union, polygon

__all__ = ["Body", "Disk", "Ellipse", "HalfDisk", "SignedDistance", "Union", "polygon"]
