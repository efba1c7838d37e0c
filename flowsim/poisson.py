"""The fast direct pressure solver: transform along y, tridiagonal systems along x.

The five-point Laplacian separates: along y its eigenvectors are cosines (walls, in- and outflow) or Fourier modes
(periodic); what is left along x is one tridiagonal system per mode. A short side is transformed by a matrix product
(two small GEMMs, at the speed of the BLAS), a long one by a real FFT.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft
import scipy.fftpack
from numpy.typing import NDArray

MATRIX_LIMIT = 256
"""Longest side that is transformed by a matrix product; a longer one takes an FFT."""


@dataclass(frozen=True)
class PoissonPlan:
    """Tables for the solution of lap phi = d on an nx by ny grid of unit spacing.

    Attributes
    ----------
    forward, backward : (ny, ny)
        Matrices of the transform along y and of its inverse: ``d @ forward``, ``d_hat @ backward``; empty where an FFT
        does it.
    pivots : (nx, ny)
        Reciprocal pivots of the tridiagonal systems; column m belongs to mode m along y.
    closure : (nx, ny)
        Influence of the last unknown on the others, for a box that is periodic in x; empty otherwise.
    closure_pivot : (ny,)
        Reciprocal pivot of that last unknown.
    """

    forward: NDArray[np.floating]
    backward: NDArray[np.floating]
    pivots: NDArray[np.floating]
    closure: NDArray[np.floating]
    closure_pivot: NDArray[np.floating]
    periodic: tuple[bool, bool]

    @classmethod
    def build(cls, nx: int, ny: int, periodic: tuple[bool, bool], dtype: np.dtype) -> PoissonPlan:
        """Compute the tables in float64 and store them in ``dtype``."""
        wave = (np.arange(ny) + 1) // 2 * 2 if periodic[1] else np.arange(ny)
        diagonal = -2.0 - (2.0 - 2.0 * np.cos(np.pi * wave / ny))  # -2 - eigenvalue of -d2/dy2
        pivots = np.ones((nx, ny))
        previous = np.zeros(ny)
        for i in range(nx):
            end = 1.0 if not periodic[0] and i in (0, nx - 1) else 0.0  # no flux through the sides
            pivot = diagonal + end - previous
            pivot[0] = 1.0  # mode 0 is singular and is solved by summation instead
            previous = pivots[i] = 1.0 / pivot
        closure, closure_pivot = np.zeros((0, ny)), np.zeros(ny)
        if periodic[0]:
            closure = np.zeros((nx, ny))
            closure[0] = closure[nx - 2] = -1.0
            _solve_tridiagonal(closure[: nx - 1], pivots)
            closure_pivot[1:] = 1.0 / (diagonal + closure[0] + closure[nx - 2])[1:]
        identity = np.eye(ny) if ny <= MATRIX_LIMIT else np.zeros((0, 2))
        return cls(
            forward=np.ascontiguousarray(_transform(identity, periodic[1]), dtype),
            backward=np.ascontiguousarray(_inverse_transform(identity, periodic[1]), dtype),
            pivots=pivots.astype(dtype),
            closure=closure.astype(dtype),
            closure_pivot=closure_pivot.astype(dtype),
            periodic=periodic,
        )

    @property
    def by_matrix(self) -> bool:
        """Whether the transform is a matrix product."""
        return bool(self.forward.size)

    def transform(self, d: NDArray[np.floating]) -> NDArray[np.floating]:
        """Transform the last axis by FFT."""
        return _transform(d, self.periodic[1])

    def inverse_transform(self, d: NDArray[np.floating]) -> NDArray[np.floating]:
        """Undo :meth:`transform`."""
        return _inverse_transform(d, self.periodic[1])


def _transform(d: NDArray[np.floating], periodic: bool) -> NDArray[np.floating]:
    # both orderings put the modes one after the other as reals: 0, 1, 2, ... or 0, cos 1, sin 1, cos 2, ...
    if periodic:
        return scipy.fftpack.rfft(d, axis=-1)
    return scipy.fft.dct(d, type=2, norm="ortho", axis=-1)


def _inverse_transform(d: NDArray[np.floating], periodic: bool) -> NDArray[np.floating]:
    if periodic:
        return scipy.fftpack.irfft(d, axis=-1)
    return scipy.fft.idct(d, type=2, norm="ortho", axis=-1)


def _solve_tridiagonal(d: NDArray[np.float64], pivots: NDArray[np.float64]) -> None:
    """Solve phi[i-1] + diagonal phi[i] + phi[i+1] = d[i] in place, for every column."""
    d[0] *= pivots[0]
    for i in range(1, len(d)):
        d[i] = (d[i] - d[i - 1]) * pivots[i]
    for i in range(len(d) - 2, -1, -1):
        d[i] -= pivots[i] * d[i + 1]
