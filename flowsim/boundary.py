"""Boundary conditions on the sides of the box."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_finite
from flowsim.kernels.device_function import device_function

SIDES = 4
LEFT, RIGHT, BOTTOM, TOP = range(SIDES)
"""Indices of the sides in arrays."""
SIDE_NAMES = ("left", "right", "bottom", "top")
PROFILES = ("parabolic",)
"""Named profiles of an inflow side."""


class Side(IntEnum):
    """Kinds of sides; compiled sweeps use the numbers.

    ``INFLOW`` has the velocity of the stream; ``OUTFLOW`` is convective, with a global mass balance if no side is
    ``OPEN``; ``OPEN`` lets the flow leave and enter freely, at the pressure of the stream outside; ``SLIP`` and
    ``NO_SLIP`` are walls; ``PERIODIC`` requires the opposite side to be periodic as well; ``FAR_FIELD`` has the
    velocity of the unbounded flow: the stream plus the velocity induced by the vorticity in the box.
    """

    PERIODIC = 0
    INFLOW = 1
    OUTFLOW = 2
    OPEN = 3
    SLIP = 4
    NO_SLIP = 5
    FAR_FIELD = 6


@dataclass(frozen=True)
class Sides:
    """The four sides of the box, each named by a string such as ``"inflow"``.

    The defaults describe a box in an unbounded stream towards +x: ``far_field``, with an ``outflow`` on the right
    through which the wake leaves.

    Parameters
    ----------
    left, right, bottom, top : str
        ``inflow``, ``outflow``, ``open``, ``slip``, ``no_slip``, ``periodic`` or ``far_field``. Unless given, ``left``
        is ``far_field`` if bottom and top are, and ``inflow`` otherwise.
    left_velocity, right_velocity, bottom_velocity, top_velocity : float
        Tangential velocity of a ``no_slip`` wall (a moving lid), in units of U.
    left_profile, right_profile, bottom_profile, top_profile : str, optional
        ``"parabolic"``: fluid enters through an ``inflow`` side with a parabolic profile whose mean is the stream.
        Other profiles: :meth:`flowsim.Simulation.set_inflow`.

    Raises
    ------
    ValueError
        For an unknown name, a periodic side whose opposite is not periodic, an open bottom or top whose opposite is not
        open, a velocity of a side that is not a ``no_slip`` wall, or a profile of a side that is not ``inflow``.
    """

    left: str = ""
    right: str = "outflow"
    bottom: str = "far_field"
    top: str = "far_field"
    left_velocity: float = 0.0
    right_velocity: float = 0.0
    bottom_velocity: float = 0.0
    top_velocity: float = 0.0
    left_profile: str | None = None
    right_profile: str | None = None
    bottom_profile: str | None = None
    top_profile: str | None = None

    def __post_init__(self) -> None:
        if not self.left:
            # an inflow next to far-field sides would force the whole stream through the box: 7 % more drag in 20 x 10 D
            unbounded = self.bottom == self.top == "far_field"
            object.__setattr__(self, "left", "far_field" if unbounded else "inflow")
        names = [kind.name.lower() for kind in Side]
        for side in ("left", "right", "bottom", "top"):
            kind, velocity = getattr(self, side), getattr(self, f"{side}_velocity")
            if kind not in names:
                raise ValueError(f"{side} = {kind!r}: a side is one of {', '.join(names)}")
            if not is_finite(velocity):
                raise ValueError(f"{side}_velocity = {velocity!r}: it must be a finite number")
            if velocity != 0 and kind != "no_slip":
                raise ValueError(
                    f"{side}_velocity = {velocity!r}: only a no_slip side can move, this one is {kind}"
                )
            profile = getattr(self, f"{side}_profile")
            if profile is not None and (profile not in PROFILES or kind != "inflow"):
                raise ValueError(
                    f"{side}_profile = {profile!r}: only an inflow side has a profile, and by name it is "
                    f"{', '.join(PROFILES)}; this side is {kind}"
                )
        for one, other in (("left", "right"), ("bottom", "top")):
            if (getattr(self, one) == "periodic") != (getattr(self, other) == "periodic"):
                raise ValueError(f"{one} and {other} must both be periodic, or neither")
        if (self.bottom == "open") != (self.top == "open"):
            # no transform along y fits one side with given pressure and one without
            raise ValueError("bottom and top must both be open, or neither")

    @classmethod
    def all(cls, kind: str) -> Sides:
        """Return four sides of one kind."""
        return cls(kind, kind, kind, kind)

    @property
    def periodic(self) -> tuple[bool, bool]:
        """Whether the box is periodic in x and in y."""
        return self.left == "periodic", self.bottom == "periodic"

    @cached_property
    def held(self) -> tuple[bool, bool, bool, bool]:
        """Whether the pressure is prescribed on each side, in the order left, right, bottom, top."""
        left, right, bottom, top = (kind == Side.OPEN for kind in self.kinds().tolist())
        return left, right, bottom, top

    def kinds(self) -> NDArray[np.int64]:
        """Return the numbers of the kinds in the order left, right, bottom, top; shape (4,)."""
        return np.array(
            [Side[getattr(self, f.name).upper()] for f in fields(self)[:4]], dtype=np.int64
        )

    def velocities(self, stream: tuple[float, float]) -> NDArray[np.float64]:
        """Return the velocity (u, v) of each side, (4, 2): the stream where it can pass, otherwise that of the wall."""
        given = np.zeros((4, 2))
        for n, side in enumerate(SIDE_NAMES):
            kind = getattr(self, side)
            if kind in ("inflow", "outflow", "open", "far_field"):
                given[n] = stream
            elif kind == "no_slip":
                given[n, 1 if n < 2 else 0] = getattr(self, f"{side}_velocity")
        return given


def side_number(side: str) -> int:
    """Return the index of a side in arrays.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    if side not in SIDE_NAMES:
        raise ValueError(f"side = {side!r}: the sides are {', '.join(SIDE_NAMES)}")
    return SIDE_NAMES.index(side)


@device_function
def normal_to_x(side: int) -> bool:
    """Return whether a side is the left or right one."""
    return side == LEFT or side == RIGHT


@device_function
def is_low(side: int) -> bool:
    """Return whether a side is the left or bottom one."""
    return side == LEFT or side == BOTTOM


@device_function
def outwards(side: int) -> float:
    """Return the sign of the outward normal of a side."""
    return -1.0 if side == LEFT or side == BOTTOM else 1.0
