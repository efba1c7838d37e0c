"""The physics, written once for every backend: functions of a cell, a body, a side and a step."""
