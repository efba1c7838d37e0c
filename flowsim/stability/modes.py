"""Growth rate, frequency and shape of the small disturbances of a steady flow that grow fastest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_positive
from flowsim.boundary import Side
from flowsim.grid import GHOSTS as G
from flowsim.stability.base_flow import check_steady

if TYPE_CHECKING:
    from flowsim.simulation import Simulation

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

AMPLITUDE = {"float32": 1e-3, "float64": 1e-6}
"""Largest value of the disturbances that the solver advances: small against the flow, large against its round-off."""
UNSTEADY = 2e-3
"""Root mean square rate of change, in U^2/D, from which on a flow is refused: of the steady flow behind a cylinder at
Re 100 the growth rate is 14 % off at 3e-3, and 4 % at 8e-4."""
LOOK_EVERY = 4
"""Vectors after which it is seen whether the modes are found."""


@dataclass(frozen=True)
class Modes:
    """The modes of each flow, the fastest growing first: a disturbance is the real part of mode times exp(s t).

    Of two conjugate modes the one with a positive frequency is listed. A mode is scaled such that its largest entry,
    at a face or the centre of a cell, is 1.

    Attributes
    ----------
    growth_rate, frequency : (B, n) float64
        s = growth_rate + 2 pi i frequency, in units of U/D: the frequency is a Strouhal number.
    error : (B, n) float64
        Estimate of the error of s by the residual, in units of U/D: as if the flow were steady.
    change : (B,) float64
        Root mean square rate of change of the flow itself while it was looked at, in units of U^2/D. What it adds to
        the error of s is of this order, times five for the wake of a cylinder.
    u, v : (B, n, nx + 2 G, ny + 2 G) complex128
        Velocity of the modes on the faces; :meth:`flowsim.Simulation.add_velocity` takes their real parts.
    temperature : (B, n, nx, ny) complex128 or None
    """

    growth_rate: FloatArray
    frequency: FloatArray
    error: FloatArray
    change: FloatArray
    u: ComplexArray
    v: ComplexArray
    temperature: ComplexArray | None


def leading_modes(
    flow: Simulation,
    count: int = 1,
    *,
    interval: float = 2.0,
    tolerance: float = 1e-3,
    vectors: int = 80,
    seed: int = 0,
) -> Modes:
    """Find the modes of small disturbances about the steady flows of a batch that grow fastest.

    By Arnoldi's iteration over the solver: a small disturbance is added to the flow, advanced by ``interval``, and what
    it has become is made orthogonal to those before (Edwards et al. 1994; Barkley, Gomes and Henderson 2002). Nothing
    is linearised but by its small size, so that bodies, sides and temperature are those of the simulation. float64 is
    recommended; in float32 rates are right to about 1e-3.

    Parameters
    ----------
    flow : Simulation
        Steady, from :func:`flowsim.base_flow` or by itself. It is left as it was.
    count : int
        How many modes.
    interval : float
        In units of D/U. Frequencies above half of its inverse are told too low.
    tolerance : float
        Of the estimated error of every mode, in units of U/D.
    vectors : int
        The most that are made for it; each takes ``interval`` of time, and a copy of the velocity in float64.
    seed : int
        Of the noise that it begins with.

    Returns
    -------
    Modes
        With ``error`` above ``tolerance`` where ``vectors`` were too few.

    Raises
    ------
    ValueError
        For numbers out of range, flows that cannot be steady, and flows that are not (:data:`UNSTEADY`).
    ArithmeticError
        When a disturbed flow diverges.
    """
    check_steady(flow)
    for name, value in (("interval", interval), ("tolerance", tolerance)):
        if not is_positive(value):
            raise ValueError(f"{name} = {value!r}: it must be positive")
    if not 1 <= count < vectors:
        raise ValueError(
            f"count = {count!r}, vectors = {vectors!r}: there must be more vectors than modes"
        )
    disturbed = _Disturbed(flow, interval)
    if (unsteady := ~(disturbed.change <= UNSTEADY)).any():
        b = int(unsteady.argmax())
        raise ValueError(
            f"flow {b} is not steady: it changes by {disturbed.change[b]:.2g} U^2/D (rms), and may by {UNSTEADY:g}; "
            "base_flow brings it to its steady state"
        )
    noise = np.random.default_rng(seed).standard_normal(disturbed.size)
    first = disturbed.advance(np.tile(noise, (flow.batch, 1)))
    spaces = [_Krylov(row, vectors) for row in first]
    for made in range(1, vectors + 1):
        after = disturbed.advance(np.stack([space.last for space in spaces]))
        for space, row in zip(spaces, after, strict=True):
            space.add(row)
        if made % LOOK_EVERY == 0 or made == vectors:
            found = [space.modes(count, interval) for space in spaces]
            if all((error <= tolerance).all() for _, error in found):
                break
    s, error = (np.stack(part) for part in zip(*found, strict=True))
    shapes = np.stack([space.shapes(count) for space in spaces])
    # turned and scaled such that the largest entry is 1
    largest = np.take_along_axis(shapes, np.abs(shapes).argmax(axis=-1)[..., None], axis=-1)
    u, v, *heat = disturbed.padded(shapes / largest)
    temperature = heat[0][..., G:-G, G:-G] if heat else None
    return Modes(s.real, s.imag / (2 * np.pi), error, disturbed.change, u, v, temperature)


class _Krylov:
    """The orthonormal vectors and the Hessenberg matrix of one flow."""

    def __init__(self, start: FloatArray, most: int) -> None:
        self._basis, self._matrix = np.zeros((most + 1, len(start))), np.zeros((most + 1, most))
        self._basis[0], self._made = start / np.linalg.norm(start), 0

    @property
    def last(self) -> FloatArray:
        """The vector that was made last."""
        return self._basis[self._made]

    def add(self, after: FloatArray) -> None:
        """Note what has become of the last vector, and make the next one of it."""
        m = self._made
        known = self._basis[: m + 1]
        for _ in range(2):  # once leaves round-off
            share = known @ after
            after = after - share @ known
            self._matrix[: m + 1, m] += share
        length = max(float(np.linalg.norm(after)), float(np.finfo(np.float64).tiny))
        self._matrix[m + 1, m] = length
        self._basis[m + 1], self._made = after / length, m + 1

    def modes(self, count: int, interval: float) -> tuple[ComplexArray, FloatArray]:
        """Return s of the ``count`` modes that grow fastest, and its errors, NaN and inf where there are fewer."""
        factor, _, error = self._leading(count)
        s, errors = np.full(count, np.nan + 0j), np.full(count, np.inf)
        s[: len(factor)], errors[: len(factor)] = np.log(factor) / interval, error / interval
        return s, errors

    def shapes(self, count: int) -> ComplexArray:
        """Return those modes, (count, size), NaN where there are fewer."""
        _, weights, _ = self._leading(count)
        shapes = np.full((count, self._basis.shape[1]), np.nan + 0j)
        shapes[: weights.shape[1]] = weights.T @ self._basis[: self._made]
        return shapes

    def _leading(self, count: int) -> tuple[ComplexArray, ComplexArray, FloatArray]:
        """Return the largest factors of an interval, their vectors in the basis, and the relative residuals."""
        m = self._made
        factor, weights = np.linalg.eig(self._matrix[:m, :m].astype(np.complex128))
        fastest = np.argsort(-np.abs(factor), kind="stable")
        # of a conjugate pair round-off may keep both or none
        pairs = factor.imag >= -1e-9 * np.abs(factor)
        kept = [n for n in fastest if pairs[n] and factor[n] != 0][:count]
        residual = self._matrix[m, m - 1] * np.abs(weights[-1, kept]) / np.abs(factor[kept])
        return factor[kept], weights[:, kept], residual


def _free(kinds: NDArray[np.int64], n: int) -> slice:
    """Return the faces along a line of n cells, ghosts counted, whose velocity no side gives."""
    low, high = (kind in (Side.OUTFLOW, Side.OPEN) for kind in kinds)
    return slice(G + (not (low or kinds[0] == Side.PERIODIC)), G + n + high)


class _Disturbed:
    """Advances small disturbances of the flows of a batch, as vectors (B, size) of the values that no side gives."""

    def __init__(self, flow: Simulation, interval: float) -> None:
        self._flow, self._interval = flow, interval
        self._all = list(range(flow.batch))
        states = [flow.get_state(b) for b in self._all]
        self._stored = flow.store_states(
            {name: np.stack([state[name] for state in states]) for name in states[0]}
        )
        nx, ny = flow.grid.nx, flow.grid.ny
        x, y = slice(G, G + nx), slice(G, G + ny)
        kinds = flow.sides.kinds()
        self._inside = [(_free(kinds[:2], nx), y), (x, _free(kinds[2:], ny))]
        if flow.heat is not None:
            self._inside.append((x, y))
        begun = self._values()
        self.size = begun.shape[1]
        self._undisturbed = self.advance(None)
        squares = ((self._undisturbed - begun) ** 2).sum(axis=1)
        self.change: FloatArray = np.sqrt(squares / (nx * ny)) / interval

    def advance(self, vectors: FloatArray | None) -> FloatArray:
        """Return what disturbances become in the interval, or the flow without one; the flow is left as it was."""
        flow, scale = self._flow, np.ones((flow_batch := self._flow.batch, 1))
        zero = np.zeros((flow_batch, self.size))
        if vectors is not None:
            largest = np.abs(vectors).max(axis=1, keepdims=True)
            scale = AMPLITUDE[flow.dtype.name] / largest
        self._disturb(zero if vectors is None else scale * vectors)
        flow.advance(self._interval)
        diverged = flow.diverged.any()
        after = self._values()
        flow.restore_states(self._all, self._stored, self._all)
        if diverged:
            raise ArithmeticError("a disturbed flow diverged: is it at its steady state?")
        return after if vectors is None else (after - self._undisturbed) / scale

    def _fields(self) -> list[Any]:
        flow = self._flow
        return [flow.u, flow.v] if flow.heat is None else [flow.u, flow.v, flow.temperature]

    def _values(self) -> FloatArray:
        """Return the flows as vectors."""
        self._flow.fill_ghosts()
        parts = [
            self._flow.to_host(field[:, x, y]).reshape(self._flow.batch, -1)
            for field, (x, y) in zip(self._fields(), self._inside, strict=True)
        ]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def _disturb(self, vectors: FloatArray) -> None:
        flow = self._flow
        u, v, *heat = self.padded(vectors)
        flow.add_velocity(self._all, u, v)
        if heat:
            now = flow.temperature_at_centres()
            flow.set_temperature(self._all, now + heat[0][:, G:-G, G:-G])

    def padded(self, vectors: NDArray[Any]) -> list[NDArray[Any]]:
        """Return vectors (..., size) as padded fields (..., nx + 2 G, ny + 2 G)."""
        fields, at, shape = [], 0, self._flow.grid.padded_shape
        for x, y in self._inside:
            inside = x.stop - x.start, y.stop - y.start
            field = np.zeros((*vectors.shape[:-1], *shape), vectors.dtype)
            last = at + inside[0] * inside[1]
            field[..., x, y] = vectors[..., at:last].reshape(*vectors.shape[:-1], *inside)
            fields.append(field)
            at = last
        return fields
