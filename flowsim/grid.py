"""The uniform, MAC-staggered grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_positive, is_whole

GHOSTS = 2
"""Layers of ghost points around every velocity array: the half-width of the upwind stencil."""


@dataclass(frozen=True)
class Grid:
    """A box of ``nx`` by ``ny`` square cells of side ``h``, its lower left corner at the origin.

    Pressure, divergence and vorticity are defined at cell centres ((i + 1/2) h, (j + 1/2) h); u on vertical faces
    (i h, (j + 1/2) h); v on horizontal faces ((i + 1/2) h, j h).

    Parameters
    ----------
    nx, ny : int
        Number of cells along x and y, even and at least 8.
    h : float
        Grid spacing, in units of the reference length D.

    Raises
    ------
    ValueError
        For an odd or too small number of cells, or a spacing that is not positive.
    """

    nx: int
    ny: int
    h: float

    def __post_init__(self) -> None:
        for name in ("nx", "ny"):
            cells = getattr(self, name)
            if not is_whole(cells) or cells < 8 or cells % 2:
                raise ValueError(
                    f"{name} = {cells!r}: the number of cells per side must be an even integer >= 8"
                )
        if not is_positive(self.h):
            raise ValueError(f"h = {self.h!r}: the grid spacing must be positive")
        # the solver is compiled for these types only, and a float32 would round every coordinate
        for name, kind in (("nx", int), ("ny", int), ("h", float)):
            object.__setattr__(self, name, kind(getattr(self, name)))

    @property
    def size(self) -> tuple[float, float]:
        """Length and height of the box."""
        return self.nx * self.h, self.ny * self.h

    @property
    def padded_shape(self) -> tuple[int, int]:
        """Shape of a velocity array with its ghost points; face i has index i + GHOSTS."""
        return self.nx + 2 * GHOSTS, self.ny + 2 * GHOSTS

    def centres(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coordinates of the cell centres, each of shape (nx, ny)."""
        return self._mesh(0.5, 0.5)

    def u_faces(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coordinates of every entry of a padded u array."""
        return self._mesh(0.0, 0.5, GHOSTS)

    def v_faces(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coordinates of every entry of a padded v array."""
        return self._mesh(0.5, 0.0, GHOSTS)

    def _mesh(
        self, dx: float, dy: float, ghosts: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        x = (np.arange(-ghosts, self.nx + ghosts) + dx) * self.h
        y = (np.arange(-ghosts, self.ny + ghosts) + dy) * self.h
        xx, yy = np.meshgrid(x, y, indexing="ij")
        return xx, yy
