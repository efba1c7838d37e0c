"""The pressure solver: real Fourier transforms along y (cuFFT), systems along x by two recursions.

Between walls the cosine transform of a row is the Fourier transform of the row in the order of
:func:`flowsim.backend.cuda.flow.place_along_y`, rotated by w_m = exp(-i pi m / 2 n): the real part and minus the
imaginary part of the m-th entry are modes m and n - m (Makhoul 1980). The sweeps before and after the transforms do the
reordering and the rotation. Between open sides odd entries also change their sign, which turns the modes into sine
modes.

This leaves one system along x for every mode (:mod:`flowsim.backend.cuda.systems`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from flowsim.backend.cuda import long_systems
from flowsim.backend.cuda.device import Device, Transform
from flowsim.backend.cuda.flow import place_along_y, sign_along_y, write_outflow
from flowsim.backend.cuda.jets import subtract_sources
from flowsim.backend.cuda.launching import TILE, Kernel, Sweep, sweep_over
from flowsim.backend.cuda.systems import cut, system_tables, systems_kernel
from flowsim.kernels.records import Bodies, Box, Fields

Array = Any
MOST_BLOCKS = 65535
"""Largest number of blocks of a CUDA grid along y."""


@Kernel
def _transformable_divergence(
    active: Array, u: Array, v: Array, d: Array, sides: Array, sweep: Sweep
) -> None:
    j = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if j < sweep.ny and active[cuda.blockIdx.z]:
        sign = u.dtype.type(sign_along_y(j, sides))
        write_outflow(u, v, d, j, place_along_y(j, sweep.ny, sides), sign, sweep, sides)


class Systems:
    """Solves the systems along x of all modes, in place, for the simulations of a batch.

    Parameters
    ----------
    nx, ny, periodic, held, dtype, device
        As for :class:`flowsim.backend.cuda.poisson.PressureSolver`.
    cutting : (int, int), optional
        Rows per piece and entries per block, at least two; by default what :func:`cut` returns.
    """

    def __init__(
        self,
        nx: int,
        ny: int,
        periodic: tuple[bool, bool],
        held: tuple[bool, bool, bool, bool],
        dtype: np.dtype,
        device: Any,
        cutting: tuple[int, int] | None = None,
    ) -> None:
        dtype = np.dtype(dtype)
        cutting = cutting or cut(nx, dtype)
        if cutting is None:
            length, self._entries = -(-nx // long_systems.PIECES), long_systems.MODES
            self._kernel, self._pieces, size = (
                long_systems.solve_long_systems,
                long_systems.PIECES,
                length,
            )
        else:
            length, self._entries = cutting
            self._kernel, self._pieces = (
                systems_kernel(length, self._entries, dtype),
                -(-nx // length),
            )
            size = self._pieces
        table = system_tables(nx, ny, periodic, held, length)
        near = device.array(table.astype(np.float64 if cutting is None else dtype))
        self._table = near if cutting is None else near.reshape(-1)
        constant = not held[2]  # whether mode 0 is constant along y, and has blocks of its own
        self._given = (size, self._table, 1.0 / ny, periodic[0], constant, held[0], held[1])
        self._groups = -(-(ny // 2 + 1 - constant) // self._entries) + constant

    def solve(self, active: Array, spectrum: Array) -> None:
        """Replace a spectrum (B, nx, ny // 2 + 1, 2) by that of the solution, divided by ny."""
        batch, nx, modes, _ = spectrum.shape
        blocks = (self._groups, min(batch, MOST_BLOCKS), -(-batch // MOST_BLOCKS))
        self._kernel.launch(
            blocks,
            (self._entries, self._pieces),
            active,
            spectrum.reshape(-1),
            nx,
            modes,
            *self._given,
        )


class PressureSolver:
    """Solves lap phi = d on unit spacing for the simulations of a batch.

    Parameters
    ----------
    nx, ny : int
        Cells of the grid.
    periodic : (bool, bool)
        Whether the box is periodic in x and in y.
    held : (bool, bool, bool, bool)
        Whether phi is zero on the left, right, bottom and top side; the same for bottom and top.
    dtype : numpy.dtype
    batch : int
    device : Device
    """

    def __init__(
        self,
        nx: int,
        ny: int,
        periodic: tuple[bool, bool],
        held: tuple[bool, bool, bool, bool],
        dtype: np.dtype,
        batch: int,
        device: Device,
    ) -> None:
        self._systems = Systems(nx, ny, periodic, held, dtype, device)
        self._transform = Transform(batch, nx, ny, dtype)

    def solve_divergence(self, active: Array, fields: Fields, bodies: Bodies, box: Box) -> None:
        """Write to phi the potential whose gradient, on unit spacing, has the divergence of the new velocity.

        The sources of jets are subtracted from the divergence. The rows of phi are in the order of
        :func:`flowsim.backend.cuda.flow.place_along_y`.
        """
        phi, sides = fields.phi, box.sides
        sweep, tiles = sweep_over(phi.shape)
        flat = [field.reshape(-1) for field in (fields.new_u, fields.new_v, phi)]
        _transformable_divergence.launch(tiles, (*TILE, 1), active, *flat, sides, sweep)
        if bodies.jets is not None:
            subtract_sources(active, phi, bodies, box, ordered=True)
        self.solve(active, phi)

    def solve(self, active: Array, d: Array) -> None:
        """Replace ``d``, in that order and with the signs of :func:`flowsim.backend.cuda.flow.sign_along_y`, by phi."""
        self._systems.solve(active, self._transform.forward(d))
        self._transform.backward(d)
