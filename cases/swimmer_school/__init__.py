"""A school of swimmers that must not collide."""
