"""Mounts of free bodies: held degrees of freedom, and springs and dampers on the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from flowsim.backend.host.given import is_finite
from flowsim.kernels.layout import FREELY, HOLDS_ANGLE, HOLDS_X, HOLDS_Y, SPRUNG

DEGREES_OF_FREEDOM = ("x", "y", "angle")
"""Degrees of freedom of a rigid body: x and y of its reference point, and its angle."""


@dataclass(frozen=True, kw_only=True)
class Spring:
    """A linear spring and a linear damper on one degree of freedom of a body.

    Its force or torque is -stiffness (q - rest) - damping dq/dt; q is x or y of the reference point, or the angle.

    Parameters
    ----------
    stiffness : float
        In units of rho U^2 along x and y, and of rho U^2 D^2 for the angle.
    damping : float
        In units of rho U D along x and y, and of rho U D^3 for the angle.
    rest : float, optional
        Position or angle at which the spring is relaxed; that of the body at the start unless given.

    Raises
    ------
    ValueError
        For a stiffness or damping that is negative, or a number that is not finite.
    """

    stiffness: float = 0.0
    damping: float = 0.0
    rest: float | None = None

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            value = getattr(self, name)
            if not (is_finite(value) and value >= 0):
                raise ValueError(f"{name} = {value!r}: the {name} of a spring must not be negative")
        if self.rest is not None and not is_finite(self.rest):
            raise ValueError(f"rest = {self.rest!r}: where a spring is slack must be finite")


def check_mount(motion: object, held: Collection[str], springs: Mapping[str, Spring]) -> None:
    """Check held degrees of freedom and springs.

    Raises
    ------
    ValueError
        For an unknown degree of freedom, one that is both held and sprung, or a body that is not free.
    """
    known = ", ".join(f'"{name}"' for name in DEGREES_OF_FREEDOM)
    if isinstance(held, str):
        raise ValueError(f'held = "{held}": it must be a tuple of names, ("{held}",)')
    for option, names in (("held", held), ("springs", springs)):
        for name in names:
            if name not in DEGREES_OF_FREEDOM:
                raise ValueError(f"{option}: {name!r} is no degree of freedom; these are {known}")
    for name, spring in springs.items():
        if not isinstance(spring, Spring):
            raise ValueError(f"springs[{name!r}] = {spring!r}: it must be a Spring")
        if name in held:
            raise ValueError(f"{name!r} is held, so that a spring on it does nothing: drop one")
    if (held or springs) and not (isinstance(motion, str) and motion == "free"):
        raise ValueError(
            'held and springs belong to a body that moves freely: give it motion="free"'
        )
    if set(held) == set(DEGREES_OF_FREEDOM):
        raise ValueError('held names every degree of freedom: give the body motion="fixed" instead')


def freedom_of(motion: object, held: Collection[str], springs: Mapping[str, Spring]) -> int:
    """Return the freedom of a body, a sum of flags such as :data:`flowsim.kernels.layout.FREELY`; 0 unless free."""
    if not (isinstance(motion, str) and motion == "free"):
        return 0
    bits = dict(zip(DEGREES_OF_FREEDOM, (HOLDS_X, HOLDS_Y, HOLDS_ANGLE), strict=True))
    return FREELY + sum(bits[name] for name in set(held)) + (SPRUNG if springs else 0)
