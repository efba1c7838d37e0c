"""Validation against exact solutions and published values, run by ``flowsim validate``.

A case is a function of an :class:`~flowsim.validation.result.Effort` that returns a
:class:`~flowsim.validation.result.Result`; a new case only needs an entry in :data:`CASES`.
"""

from __future__ import annotations

import math
import time
from functools import partial

from flowsim.validation import (
    bodies,
    cavity,
    channel,
    convection,
    cylinder,
    driven,
    free_bodies,
    growth,
    impulsive,
    mounted,
    open_sides,
    pinball,
    smooth,
    surface,
    swimming,
    time_steps,
)
from flowsim.validation.result import Case, DivergedError, Effort, Result, Row

CASES: dict[str, tuple[str, Case]] = {
    "taylor-green": (
        "Taylor-Green vortex: decay, order of convergence in space and time",
        smooth.taylor_green,
    ),
    "lamb-oseen": ("Lamb-Oseen vortex: velocity profile", smooth.lamb_oseen),
    **{
        f"cavity-{number}": (f"Lid-driven cavity at Re {number}", partial(cavity.cavity, number))
        for number in cavity.GHIA
    },
    **{
        f"cylinder-{number}": (
            f"Steady flow past a cylinder at Re {number}",
            partial(cylinder.steady, number),
        )
        for number in cylinder.STEADY_VALUES
    },
    "surface": ("Pressure and skin friction along a cylinder at Re 40", surface.surface),
    **{
        f"cylinder-{number}": (
            f"Vortex shedding of a cylinder at Re {number}",
            partial(cylinder.shedding, number),
        )
        for number in cylinder.SHEDDING_VALUES
    },
    "growth": (
        "Steady flow past a cylinder at Re 100, and the growth rate of vortex shedding",
        growth.growth,
    ),
    **{
        f"pinball-{number}": (
            f"Three cylinders in a triangle, the fluidic pinball, at Re {number}",
            partial(pinball.pinball, number),
        )
        for number in pinball.VALUES
    },
    "poiseuille": (
        "Channel flow between walls, developed from a uniform start",
        channel.poiseuille,
    ),
    "endless-channel": (
        "Poiseuille flow between periodic sides: given force, or given mean velocity",
        driven.endless_channel,
    ),
    "kolmogorov": (
        "Kolmogorov flow, driven from rest by a sinusoidal force",
        driven.kolmogorov,
    ),
    "step-800": ("Gartling's backward-facing step at Re 800", driven.step),
    **{
        f"side-heated-{number:.0e}".replace("e+0", "e"): (
            f"Square cavity heated from a side at Ra {number:.0e}".replace("e+0", "e"),
            partial(convection.side_heated, number),
        )
        for number in convection.SIDE_HEATED
    },
    "onset": ("Onset of convection between plates", convection.onset),
    "rayleigh-benard": (
        "Convection between plates in the box of Vignon et al., Pr 0.7, Ra 8e4",
        convection.rayleigh_benard,
    ),
    "hot-cylinder": ("Heat from a cylinder at Re 20 and 40, Pr 0.7", convection.hot_cylinder),
    "channel-20": ("Cylinder in a channel at Re 20: Schaefer and Turek's 2D-1", channel.cylinder),
    "channel-100": (
        "Vortex shedding of a cylinder in a channel at Re 100: Schaefer and Turek's 2D-2",
        channel.shedding,
    ),
    "open-sides": ("Vortex shedding at Re 100 between open sides, 200 D/U", open_sides.open_sides),
    "short-times": ("Cylinder at Re 100 just after an impulsive start", impulsive.short_times),
    **{
        f"impulsive-{number}": (
            f"Impulsively started cylinder at Re {number}",
            partial(impulsive.impulsive, number),
        )
        for number in impulsive.IMPULSIVE_DRAG
    },
    "oscillating": ("Cylinder oscillating in still water, Re 100 and KC 5", cylinder.oscillating),
    "d-section": (
        "Half disk at Re 100, curved side upstream: grid convergence",
        cylinder.d_section,
    ),
    "added-mass": ("Disk released from rest: added mass", free_bodies.added_mass),
    "vortex-induced": (
        "Cylinder on a spring across the stream, Re 150, mass 2 rho D^2: vortex-induced vibration",
        mounted.vortex_induced,
    ),
    "sedimenting": ("Falling disk, density ratio 1.01", free_bodies.sedimenting),
    "forces": ("Force and torque by two methods: penalty and control volume", bodies.forces),
    "leak": ("Leak through a thin ellipse", bodies.leak),
    "time-steps": ("Fixed, driven, falling and rising disk: order in time", time_steps.time_steps),
    "order": ("Couette flow between a rotating disk and a ring: order near bodies", bodies.order),
    "frames": ("Disk in a stream and disk moving through still water", free_bodies.frames),
    "eel": ("Swimming eel in two dimensions, from rest: speed, convergence", swimming.eel),
    "swimmer-forces": ("Force and torque on a swimming eel by two methods", swimming.balance),
}
"""Name, title and function of every case, in the order of the page."""


def run_case(name: str, effort: Effort) -> tuple[Result, float]:
    """Run a case; if a simulation diverges, the result is a failed row that says so.

    Returns
    -------
    Result
    float
        Run time in seconds.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    if name not in CASES:
        raise ValueError(f"name = {name!r}: the cases are {', '.join(CASES)}")
    began = time.perf_counter()
    try:
        result = CASES[name][1](effort)
    except DivergedError as error:
        result = Result([Row(str(error), math.nan, None, "", math.nan, 0.0, "", None)])
    effort.progress(1.0)
    return result, time.perf_counter() - began
