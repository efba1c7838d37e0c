"""The fast direct pressure solver: transform along y, tridiagonal systems along x.

The five-point Laplacian separates: along y its eigenvectors are cosines (walls, in- and outflow), sines (open) or
Fourier modes (periodic); this leaves one tridiagonal system along x per mode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PoissonPlan:
    """Tables for the solution of lap phi = d on an nx by ny grid of unit spacing.

    Mode m along y is cos(pi m (j + 1/2) / ny) between walls. Between open sides, where phi is zero, it is that times
    (-1)^j, which is sin(pi (ny - m) (j + 1/2) / ny). In a periodic box it is the real part of Fourier mode m for
    m <= ny / 2, and minus the imaginary part of mode ny - m beyond.

    Attributes
    ----------
    pivots : (nx, ny)
        Reciprocal pivots of the tridiagonal systems; column m belongs to mode m along y.
    closure : (nx, ny)
        Influence of the last unknown on the others, for a box that is periodic in x; empty otherwise.
    closure_pivot : (ny,)
        Reciprocal pivot of that last unknown.
    periodic : (bool, bool)
    held : (bool, bool, bool, bool)
        Whether phi is zero on the left, right, bottom and top side; otherwise its normal derivative is zero there.
    constant : bool
        Whether mode 0 is constant along y. It has no pivots and is solved by summation.
    """

    pivots: NDArray[np.floating]
    closure: NDArray[np.floating]
    closure_pivot: NDArray[np.floating]
    periodic: tuple[bool, bool]
    held: tuple[bool, bool, bool, bool]
    constant: bool

    @classmethod
    def build(
        cls,
        nx: int,
        ny: int,
        periodic: tuple[bool, bool],
        held: tuple[bool, bool, bool, bool],
        dtype: np.dtype,
    ) -> PoissonPlan:
        """Compute the tables in float64 and store them in ``dtype``."""
        constant = not held[2]
        diagonal = -2.0 - eigenvalues(np.arange(ny), ny, periodic[1], held[2])
        pivots = np.ones((nx, ny))
        previous = np.zeros(ny)
        for i in range(nx):
            end = 0.0
            # phi is continued evenly beyond a side, or oddly where it is held
            if not periodic[0] and i in (0, nx - 1):
                end = -1.0 if held[0 if i == 0 else 1] else 1.0
            pivot = diagonal + end - previous
            if constant:
                pivot[0] = 1.0
            previous = pivots[i] = 1.0 / pivot
        closure, closure_pivot = np.zeros((0, ny)), np.zeros(ny)
        if periodic[0]:
            closure = np.zeros((nx, ny))
            closure[0] = closure[nx - 2] = -1.0
            _solve_tridiagonal(closure[: nx - 1], pivots)
            first = 1 if constant else 0
            closure_pivot[first:] = 1.0 / (diagonal + closure[0] + closure[nx - 2])[first:]
        return cls(
            pivots=pivots.astype(dtype),
            closure=closure.astype(dtype),
            closure_pivot=closure_pivot.astype(dtype),
            periodic=periodic,
            held=held,
            constant=constant,
        )


def eigenvalues(
    modes: NDArray[np.int64], ny: int, periodic: bool, held: bool
) -> NDArray[np.float64]:
    """Return the eigenvalues of -d2/dy2 for modes of :class:`PoissonPlan`, with phi ``held`` at both ends or none."""
    angle = modes * (2.0 if periodic else 1.0) * np.pi / ny
    return 2.0 + (2.0 if held else -2.0) * np.cos(angle)


def _solve_tridiagonal(d: NDArray[np.float64], pivots: NDArray[np.float64]) -> None:
    """Solve phi[i-1] + diagonal phi[i] + phi[i+1] = d[i] in place, for every column."""
    d[0] *= pivots[0]
    for i in range(1, len(d)):
        d[i] = (d[i] - d[i - 1]) * pivots[i]
    for i in range(len(d) - 2, -1, -1):
        d[i] -= pivots[i] * d[i + 1]
