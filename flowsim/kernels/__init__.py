"""The physics, shared by all backends: functions of a cell, a body, a side and a step."""
