"""flowsim/DCylinderWake-v0: an ellipse keeps its place in a cylinder's wake with little effort.

The benchmark of Novati & Koumoutsakos, "Remember and Forget for Experience Replay" (2019), section 5.4 and
appendix D. Units: the cylinder's diameter D, its speed U, T = D/U, density of the fluid 1.

O, a half disk with its curved side ahead, moves to the left at U, Re = U D/nu = 400; we move with it. A, an
ellipse with the major axis D, aspect ratio 0.2 and the density of the fluid, is free in x, y and theta. Once
per T the agent chooses a force and a torque on A. It is paid -|a|^2, and -100 if A leaves the box 0.5 <= x <=
3.5, |y| <= 1.5 around O.

What the paper leaves out, and what we do
-----------------------------------------
1.  Scales of the action: force 0.5 rho U^2 D and torque 0.05 rho U^2 D^2 at |a_i| = 1, actions clipped to
    [-1, 1]. The original code (January 2019) used 1 and 1 without a limit; there the paper's exploration
    noise alone spins A by several radians per action.  The reward is that of the clipped action.
2.  The sign: force and torque act on A (the paper: "on the flow").
3.  Sensors: at the four ends of A's axes, in the order front, top, rear, bottom; both components (in the axes
    of the box) of the flow velocity relative to the surface there, sampled 0.05 D outside it
    (`sensor_offset`), as no slip leaves nothing to measure on the surface.
4.  Observation: position of A's centre relative to the middle of O's flat side, angle in (-pi, pi], velocity
    relative to O, angular velocity, then the sensors. Clipped far beyond what occurs (8 D, 50 U, 200 U/D).
5.  Box of the flow 8 D x 4 D, the middle of O's flat side at (1.8, 2.0).
6.  The alive box is that of the original code; it is checked after every solver step, and leaving it ends the
    action.
7.  Starts: A at rest relative to O, `start_range="paper"`: x in [0.75, 3.25], y in [-1.25, 1.25], theta in
    [-pi/4, pi/4]; "narrow": x in [1, 2.5], y in [-0.5, 0.5], theta in [-pi/8, pi/8].
8.  The flow at the start: "impulsive" (a uniform stream meets resting bodies, as in the original) or
    "developed": one of 24 stored snapshots of the periodic wake of O alone, into which A is put at rest.

Deviations from the paper
-------------------------
1.  Grid: the paper says h = 2^-10 D; we read 2^-10 of the box's length (1024 x 512 cells, preset `paper`);
    the other presets are coarser, and integrate with a second-order method at CFL 0.55 instead of explicit
    Euler at 0.1.
2.  Sides: the paper has Neumann conditions everywhere, in which drag and wake depend on the box. Here the box is
    cut out of an unbounded stream (`far_field`) with an outflow on the right: drag coefficient and period are
    within 4 % of those in a box of 40 x 24 D (docs/boxes.md, 16 cells per D). Preset `paper` has Neumann conditions
    on bottom and top, preset `sketch` walls; both nearly double the drag.
3.  A simulation that blows up ends its episode with -100 and `info["diverged"]`.
4.  The frame moves with O; the equations are the same, since O does not accelerate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from cases.d_cylinder_wake.wake_bank import Arrays, load_or_build
from cases.ellipse_agent import ASPECT_RATIO, FloatArray, sensors, vertices
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import BoolArray, FlowTask, Generators
from cases.options import FlowOptions, SideOptions
from flowsim import Ellipse, HalfDisk, Sides, Simulation
from flowsim.render.fields import Outline, Scene, outline

BOX = (8.0, 4.0)
CYLINDER = (1.8, 2.0)
START_RANGES = {
    "paper": ((0.75, 3.25), (-1.25, 1.25), (-np.pi / 4.0, np.pi / 4.0)),
    "narrow": ((1.0, 2.5), (-0.5, 0.5), (-np.pi / 8.0, np.pi / 8.0)),
}
STREAM = (1.0, 0.0)


class WakeOptions(FlowOptions):
    """Options of flowsim/DCylinderWake-v0; their defaults are those of the preset `quick`."""

    cells_per_diameter: float = Field(16.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(400, ge=1, description="actions until an episode is truncated")
    cfl: float | None = Field(
        0.55, gt=0.0, le=1.0, description="None: 0.5 with ab2, 0.1 with euler"
    )
    start: Literal["developed", "impulsive"] = "developed"
    start_range: Literal["paper", "narrow"] = "narrow"
    sides: SideOptions = Field(default_factory=SideOptions)

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in D."""
        return BOX


class DCylinderWake(FlowTask[WakeOptions]):
    """The task; bodies are O (0) and A (1)."""

    options_class = WakeOptions
    folder = Path(__file__).parent
    agent = 1
    failure_reward = -100.0
    position_limit = BOX[0]
    alive_box = (CYLINDER[0] + 0.5, CYLINDER[0] + 3.5, CYLINDER[1] - 1.5, CYLINDER[1] + 1.5)
    _cylinder: ClassVar[int] = 0

    def __init__(self, options: WakeOptions, batch: int) -> None:
        super().__init__(options, batch)
        self._wakes: Arrays | None = None
        if options.start == "developed":
            wakes = load_or_build(
                self._wake_configuration(), lambda: self._simulation(1, with_agent=False)
            )
            self._wakes = self.simulation.store_states(_with_agent(wakes))

    def build(self, batch: int) -> Simulation:
        """Return the simulation with O and A."""
        return self._simulation(batch, with_agent=True)

    def _simulation(self, batch: int, with_agent: bool) -> Simulation:
        options = self.options
        cylinder = HalfDisk(diameter=1.0, center=CYLINDER)
        centre = (CYLINDER[0] + 1.75, CYLINDER[1])
        body = Ellipse(major=1.0, aspect=ASPECT_RATIO, center=centre, motion="free", density=1.0)
        return Simulation(
            options.grid(),
            Sides(**options.sides.model_dump()),
            [cylinder, body] if with_agent else [cylinder],
            viscosity=1.0 / options.reynolds,
            batch=batch,
            stream=STREAM,
            sensors=sensors(self.agent, options.sensor_offset) if with_agent else (),
            integrator=options.integrator,
            cfl=options.cfl,
            penalty=options.penalty,
            dtype=options.dtype,
            # The bank is part of the start, so it must not depend on how a machine computes.
            backend=options.backend if with_agent else "cpu",
            threads=options.threads if with_agent else 1,
        )

    def _wake_configuration(self) -> dict[str, Any]:
        keys = {"reynolds", "cells_per_diameter", "integrator", "cfl", "penalty", "dtype", "sides"}
        return {"case": "d_cylinder", "box": BOX, **self.options.model_dump(include=keys)}

    def stream(self) -> tuple[float, float]:
        """Return the velocity of the undisturbed water."""
        return STREAM

    def start(self, which: BoolArray, generators: Generators) -> None:
        """Put each A at rest at a random place, in a uniform stream or a random snapshot of the wake."""
        ranges, wakes = START_RANGES[self.options.start_range], self._wakes
        simulation = self.simulation
        places, snapshots = {}, {}
        for index, generator in generators.items():
            places[index] = [generator.uniform(low, high) for low, high in ranges]
            if wakes is not None:
                snapshots[index] = int(generator.integers(len(wakes["u"])))
        if wakes is None:
            self.reset(which)
        else:
            simulation.restore_states(list(snapshots), wakes, list(snapshots.values()))
        for index, (x, y, angle) in places.items():
            simulation.body_state.position[index, self.agent] = CYLINDER[0] + x, CYLINDER[1] + y
            simulation.body_state.angle[index, self.agent] = angle
        simulation.settle(which)

    def relative_position(self) -> FloatArray:
        """Return the position of A relative to O."""
        position = self.simulation.body_state.position
        return position[:, self.agent] - position[:, self._cylinder]

    def reward(self, actions: FloatArray) -> FloatArray:
        """Return -|a|^2."""
        a0, a1, a2 = actions.T
        return np.asarray(-(a0 * a0 + a1 * a1 + a2 * a2))

    def scene(self, index: int) -> Scene:
        """Return vorticity, both bodies, A's sensors, the force on A and the alive box."""
        state = self.simulation.body_state
        position, angle = state.position[index], state.angle[index]
        outlines = [
            Outline(outline(body, position[k], float(angle[k])), agent=k == self.agent)
            for k, body in enumerate(self.simulation.bodies)
        ]
        return Scene(
            values=self.simulation.vorticity(index),
            size=BOX,
            outlines=outlines,
            sensors=vertices(
                position[self.agent][None], angle[self.agent][None], self.options.sensor_offset
            )[0],
            force=(
                position[self.agent].copy(),
                state.applied_force[index, self.agent] * (1.0 / self.options.force_scale),
            ),
            alive_box=self.alive_box,
        )


def _with_agent(wakes: Arrays) -> Arrays:
    """Return states of O alone, stacked, as ones of O and A at time zero, with A's entries at zero."""
    states = dict(wakes)
    for name, array in wakes.items():
        if name.startswith("body_"):
            states[name] = np.concatenate([array, np.zeros_like(array)], axis=1)
        elif name in ("time", "steps"):
            states[name] = np.zeros_like(array)
    return states


class DCylinderWakeEnv(FlowEnv):
    """flowsim/DCylinderWake-v0: an ellipse keeps its place in the wake of a D-section cylinder with little effort.

    Lengths are in the cylinder's diameter D, velocities in its speed U, times in D/U; rho is the density of fluid and
    ellipse. x runs along the stream and y upwards; Re = U D/nu = 400.

    Observation, float32 of shape (14,), relative to the cylinder; each number lies between plus and minus its bound:

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0, 1 | centre of the ellipse, x and y, from the middle of the cylinder's flat side | D | 8 |
    | 2 | angle of the major axis | rad | pi |
    | 3, 4 | velocity of its centre, x and y | U | 50 |
    | 5 | angular velocity | U/D | 200 |
    | 6 to 13 | flow velocity past the skin at the front, top, rear and bottom ends of the axes, x and y | U | 50 |

    Action, float32 of shape (3,), each from -1 to 1 (clipped), constant for 1 D/U:

    | index | what | at 1 |
    | --- | --- | --- |
    | 0, 1 | force on the ellipse along x and y | 0.5 rho U^2 D |
    | 2 | torque on the ellipse, anticlockwise | 0.05 rho U^2 D^2 |

    Reward of an action: -(a0^2 + a1^2 + a2^2), from -3 to 0; -100 for the one in which the agent leaves the box.

    An episode starts with the ellipse at rest at a random place of x from 1 to 2.5, y from -0.5 to 0.5, angle from
    -pi/8 to pi/8, in a random phase of the wake. It is terminated when the centre leaves 0.5 <= x <= 3.5, |y| <= 1.5
    (or when the simulation diverges, see `info["diverged"]`), and truncated after 400 actions.

    These are the numbers of the preset `quick`, which `gymnasium.make` takes unless another one is named (`preset=`
    `default`, `fine` or `paper`: wider starts, finer grids, hours instead of minutes; `sketch`: coarser, 40 actions).
    Options: the fields of `WakeOptions`. Contents of `info`: `FlowEnv`.
    """

    task_class = DCylinderWake


class DCylinderWakeVectorEnv(FlowVectorEnv):
    """flowsim/DCylinderWake-v0, a batch of agents in one simulation.

    Observations (num_envs, 14), actions (num_envs, 3), rewards and options are those of `DCylinderWakeEnv`; how
    episodes start again: `FlowVectorEnv`.
    """

    task_class = DCylinderWake
