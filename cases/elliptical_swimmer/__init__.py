"""An ellipse that swims to a target."""
