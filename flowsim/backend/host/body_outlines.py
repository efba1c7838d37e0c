"""Current surfaces of bodies, and the fluid that they displace."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.arrays import Arrays
from flowsim.kernels.distances import Shape
from flowsim.kernels.layout import (
    AXIS_A,
    CENTROID_X,
    FLUID_MASS,
)
from flowsim.kernels.midline import (
    COS,
    HALF_WIDTH,
    INERTIA,
    SIN,
    X,
    Y,
)

Array = Any
FloatArray = NDArray[np.float64]


class BodyOutlines(Arrays):
    """Outlines of bodies, in the coordinates of the box."""

    def extent(self, b: int, k: int) -> tuple[FloatArray, FloatArray]:
        """Return the lower left and the upper right corner, (2,) each, of a bounding box of body k of simulation b."""
        if self.bodies[k].shape == Shape.MIDLINE:
            surface = self.surface(b, k)
            return surface.min(axis=0), surface.max(axis=0)
        c, s = np.cos(self.body_state.angle[b, k]), np.sin(self.body_state.angle[b, k])
        along, across = self._table.traits[k, AXIS_A:CENTROID_X]
        reach = np.array([np.hypot(along * c, across * s), np.hypot(along * s, across * c)])
        return self.body_state.position[b, k] - reach, self.body_state.position[b, k] + reach

    def midline(self, b: int, k: int) -> FloatArray:
        """Return position and direction (x, y, cos, sin) of a swimmer's midline in the box, (n, 4), head first.

        Raises
        ------
        ValueError
            For a body that is not a swimmer.
        """
        if self.bodies[k].shape != Shape.MIDLINE:
            raise ValueError(
                f"body {k} is a {type(self.bodies[k]).__name__}, which has no midline: it does not bend"
            )
        line = self.to_host(self._device_state.bodies.table.midlines[b, k])
        c, s = np.cos(self.body_state.angle[b, k]), np.sin(self.body_state.angle[b, k])
        turn = np.array([[c, s], [-s, c]])
        place = line[:, [X, Y]] @ turn + self.body_state.position[b, k]
        return np.concatenate([place, line[:, [COS, SIN]] @ turn], axis=1)

    def surface(self, b: int, k: int) -> FloatArray:
        """Return the surface of a swimmer as a closed curve (n, 2) in the box, from head to tail and back.

        Raises
        ------
        ValueError
            For a body that is not a swimmer.
        """
        x, y, cos, sin = self.midline(b, k).T
        w = self._table.nodes[k, :, HALF_WIDTH]
        left, right = (
            np.stack([x - w * sin, y + w * cos], axis=-1),
            np.stack([x + w * sin, y - w * cos], axis=-1),
        )
        return np.concatenate([left, right[-2:0:-1]])

    def displaced(self, b: int, k: int) -> tuple[float, float]:
        """Return mass and moment of inertia of the fluid that body k of simulation b displaces."""
        bends = self.bodies[k].shape == Shape.MIDLINE
        inertia = self.form[b, k, INERTIA] if bends else self.bodies[k].second_moment
        return float(self._table.traits[k, FLUID_MASS]), float(inertia)
