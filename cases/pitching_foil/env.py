"""flowsim/PitchingFoil-v0: a foil in gusts pitches to keep its lift constant.

Units: the foil's chord c, the velocity U of the stream, T = c/U, density of the fluid 1. "D" in options and messages is
the chord.

Sources of the parameters
-------------------------
1.  Task: Beckers & Eldredge 2024, arXiv 2404.01506. A plate pitches, the action is its pitch acceleration, random
    pulses of force ahead of it disturb the flow, and the lift has to be kept constant; observations are lift, angle and
    angular velocity. We have the abstract and a summary, but not the tables: Reynolds number, pulses, bounds and
    weights below are ours.
2.  Pivot at a quarter of the chord: according to the follow-up arXiv 2506.10153 it needs far less effort than a pivot
    at half of the chord (`pivot`).

Our choices
-----------
1.  A NACA 0015 instead of a flat plate, because a plate thinner than four cells cannot be resolved; Re 200 based on the
    chord; an initial angle of 10 degrees instead of zero, so that there is lift.
2.  A gust is an impulse of a few hundredths of a force that acts instantaneously: a divergence-free vertical jet with
    its return flow is added to the velocity one chord ahead of the nose. v = s (1 - x^2 / l^2) exp(-r^2 / (2 l^2)),
    l = 0.3 c. Gusts are 1 to 3 c/U apart, at the beginning of an action, with s uniform in +-`gust_speed` and the
    height uniform in +-0.25 c. All gusts of an episode are sampled when it starts; training, validation and test use
    different seeds.
3.  Every episode starts from the same steady flow.
4.  Reward: minus the square of the deviation of the mean C_L of an action, minus `effort_weight` times the square of
    the action.
5.  The angle is limited to 30 degrees from the start and the rate to 1 U/c: actions that would exceed the limits are
    clipped, and near the largest angle the foil brakes in time, with no more than the acceleration of an action.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from cases.actuators import Actuator, PitchAcceleration
from cases.disturbances import vertical_jet
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow, FlowTask
from cases.initial_flows import Development
from cases.loads import FloatArray
from cases.options import FlowOptions
from cases.sensors import Computed, History, PastActions, Sensor
from flowsim import Body, Simulation, polygon
from flowsim.bodies.foils import naca
from flowsim.render.units import units_of

BOX = (7.0, 4.0)
PIVOT = (2.5, 2.0)
GUST_SIZE, GUST_AHEAD, GUST_HEIGHT = 0.3, 1.0, 0.25
"""Length scale of a gust, distance of its centre from the nose at angle 0, and its largest height above the pivot."""
GAPS = (1.0, 3.0)
"""Range of the time between gusts."""
LARGEST_PITCH = np.radians(30.0)
LIFT_LIMIT, RATE_LIMIT = 1000.0, 200.0
DEVELOPMENT = Development(time=25.0, snapshots=1, spacing=1.0, push=0.0)


@functools.lru_cache(maxsize=8)
def foil(thickness: float, pivot: float, degrees: float) -> Body:
    """Return the foil with its nose up; cached, because computing its area and moments takes a second."""
    corners = naca(thickness, pivot=pivot).tolist()
    return polygon(corners, center=PIVOT, angle=-np.radians(degrees))


class PitchingFoilOptions(FlowOptions):
    """Options of flowsim/PitchingFoil-v0; their defaults are those of the preset `quick`."""

    reynolds: float = Field(200.0, gt=0.0, description="U c / nu")
    cfl: float | None = Field(
        0.55, gt=0.0, le=1.0, description="None: 0.5 with ab2, 0.1 with euler"
    )
    cells_per_diameter: float = Field(32.0, ge=4.0, description="cells per chord")
    episode_actions: int = Field(100, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(0.2, gt=0.0, le=100.0, description="time one action is held")
    thickness: float = Field(0.15, gt=0.0, lt=1.0, description="of the foil, in chords")
    degrees: float = Field(
        10.0, ge=-30.0, le=30.0, description="angle of attack, nose up, at the start"
    )
    pivot: float = Field(0.25, ge=0.0, le=1.0, description="distance from the nose, in chords")
    acceleration: float = Field(
        2.0, gt=0.0, le=100.0, description="of the pitch at a command of 1, in U^2/c^2"
    )
    largest_rate: float = Field(1.0, gt=0.0, le=100.0, description="of the pitch, in U/c")
    gust_speed: float = Field(0.8, ge=0.0, le=2.0, description="largest speed of a gust, in U")
    lift_reference: float = Field(
        0.386, description="C_L that is to be kept: that of the steady flow without control"
    )
    effort_weight: float = Field(
        0.02, ge=0.0, description="weight of the square of the action in the reward"
    )
    past: int = Field(3, ge=1, le=50, description="how many measurements are observed")

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in chords."""
        return BOX


class PitchingFoil(FlowTask[PitchingFoilOptions]):
    """The task of `PitchingFoilEnv`; its only body is held at the pivot and turned by one agent."""

    options_class = PitchingFoilOptions
    folder = Path(__file__).parent
    units = units_of("c")

    def __init__(self, options: PitchingFoilOptions, batch: int) -> None:
        super().__init__(options, batch)
        self.memory["gusts"] = np.zeros((batch, options.episode_actions, 2))
        self.memory["played"] = np.zeros(batch, np.int64)

    def flow(self) -> Flow:
        """Return the foil in an unbounded stream."""
        options = self.options
        return Flow(bodies=[foil(options.thickness, options.pivot, options.degrees)])

    @property
    def development(self) -> Development:
        """Development of the steady flow, from which every episode starts."""
        return DEVELOPMENT

    def disturb(self, simulation: Simulation) -> None:
        """Do nothing, so that the flow becomes steady."""

    def actuators(self) -> Sequence[Actuator]:
        """Return the pitch acceleration; positive is anticlockwise, that is nose down."""
        options, start = self.options, -np.radians(self.options.degrees)
        return [
            PitchAcceleration(
                [0],
                acceleration=options.acceleration,
                duration=options.action_time,
                largest_rate=options.largest_rate,
                angles=(start - LARGEST_PITCH, start + LARGEST_PITCH),
            )
        ]

    def sensors(self) -> Sequence[Sensor]:
        """Return the last lift deviations, angles and angular velocities, grouped by action, and the last action."""
        limits = [LIFT_LIMIT, np.pi, RATE_LIMIT]
        return [History(Computed(self._state, limits), self.options.past), PastActions()]

    def _state(self) -> FloatArray:
        state = self.simulation.body_state
        angle = state.angle[:, 0] + np.radians(self.options.degrees)
        return np.stack([self._deviation(), angle, state.angular_velocity[:, 0]], axis=-1)

    def _deviation(self) -> FloatArray:
        """Return the mean C_L of the last action minus the reference; zero before the first action."""
        lift = 2.0 * self.loads.averages()["lift"][:, 0] - self.options.lift_reference
        return np.where(self.memory["played"] > 0, lift, 0.0)

    # --- gusts --------------------------------------------------------------------------------------------------

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Sample speed and height of the gust at the beginning of every action; zero speed means no gust."""
        options = self.options
        gusts = np.zeros((options.episode_actions, 2))
        time = generator.uniform(0.0, GAPS[0])
        while (action := int(time / options.action_time)) < options.episode_actions:
            speed = options.gust_speed * generator.uniform(-1.0, 1.0)
            gusts[action] = speed, GUST_HEIGHT * generator.uniform(-1.0, 1.0)
            time += generator.uniform(*GAPS)
        return gusts

    def place(self, index: int, drawn: FloatArray) -> None:
        """Store the gusts of an episode."""
        self.memory["gusts"][index], self.memory["played"][index] = drawn, 0

    def actuate(self, commands: FloatArray) -> None:
        """Apply the commands, and add the gusts of this action."""
        super().actuate(commands)
        played, gusts = self.memory["played"], self.memory["gusts"]
        for b in np.flatnonzero(played < gusts.shape[1]):
            speed, height = gusts[b, played[b]].tolist()
            if speed != 0.0:
                add_gust(self.simulation, int(b), speed, height, self.options.pivot)
        played += 1

    # --- reward -------------------------------------------------------------------------------------------------

    def reward(self, commands: FloatArray) -> FloatArray:
        """Return minus the squared deviation of the lift, minus the weighted square of the action."""
        effort = self.options.effort_weight * commands[:, 0] ** 2
        return np.asarray(-(self._deviation() ** 2) - effort)

    def measures(self) -> Mapping[str, FloatArray]:
        """Return the drag and lift coefficients, the angle of attack in degrees, and the power of the pitch."""
        loads, state = self.loads.averages(), self.simulation.body_state
        return {
            "C_D": 2.0 * loads["drag"][:, 0],
            "C_L": 2.0 * loads["lift"][:, 0],
            "angle of attack": -np.degrees(state.angle[:, 0]),
            "pitch power": 2.0 * (loads["power"] - loads["drag"])[:, 0],
        }


def add_gust(simulation: Simulation, b: int, speed: float, height: float, pivot: float) -> None:
    """Add a vertical jet with its return flow to the velocity ahead of the foil.

    Parameters
    ----------
    simulation, b
        The batch, and the index of the flow.
    speed
        Upward speed at the centre of the gust, in U.
    height
        Height of its centre above the pivot, in chords.
    pivot
        Distance of the pivot from the nose, in chords.
    """
    middle = PIVOT[0] - pivot - GUST_AHEAD, PIVOT[1] + height
    simulation.add_velocity(b, *vertical_jet(simulation.grid, middle, GUST_SIZE, speed))


class PitchingFoilEnv(FlowEnv):
    """flowsim/PitchingFoil-v0: a foil in gusts pitches to keep its lift constant.

    Lengths are in the foil's chord c, velocities in the stream's U, times in c/U; rho is the density of the fluid. x
    runs along the stream and y upwards; Re = U c/nu = 200. Angles are anticlockwise, so that a positive one is nose
    down.

    Observation, float32 of shape (10,):

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0, 3, 6 | mean C_L of the last action and of the two before, minus the reference | | 1000 |
    | 1, 4, 7 | angle minus that at the start | rad | pi |
    | 2, 5, 8 | angular velocity | U/c | 200 |
    | 9 | the last action | | 1 |

    Action, float32 of shape (1,), from -1 to 1 (clipped): the angular acceleration about the quarter chord, 2 U^2/c^2
    at 1, for 0.2 c/U. The rate stays within 1 U/c and the angle within 30 degrees of the start, before which the foil
    brakes in time.

    Reward of an action: minus (C_L - `lift_reference`)^2, minus `effort_weight` (0.02) times the square of the action.

    An episode starts from the steady flow at 10 degrees; gusts are random, 1 to 3 c/U apart. It is truncated after
    100 actions, 20 c/U.

    These numbers apply to the default preset, `quick`. Other presets: `default` (finer grid).
    Options are the fields of `PitchingFoilOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = PitchingFoil


class PitchingFoilVectorEnv(FlowVectorEnv):
    """flowsim/PitchingFoil-v0, a batch of flows in one simulation.

    Observations (num_envs, 10), actions (num_envs, 1), rewards and options are those of `PitchingFoilEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = PitchingFoil
