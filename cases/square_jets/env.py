"""flowsim/SquareJets-v0: two jets at the rear corners of a square cylinder lower its drag, with limited sensing.

After Xia et al. (2024, J. Fluid Mech., doi 10.1017/jfm.2024.69). Units: the side D of the square, the velocity U of the
stream, T = D/U, density of the fluid 1.

Sources of the parameters (the authors' code, Square2DFlowControlDRL-PM-NARX-SB3)
---------------------------------------------------------------------------------
1.  A unit square, Re 100.
2.  Jets on the top and the bottom face at the rear corners, x from 0.4 to 0.5, vertical, with a parabolic profile and
    opposite flow rates: at a command of 1 the upper jet blows Q = 0.1 U D, with a peak of 1.5 U.
3.  Action of 0.5 D/U; episode of 400 actions (preset `default`).
4.  `sensors`: "base", 64 pressures on the rear face, y = -0.5 + i/65, or "wake", 64 at x = 0.5 + {0.25, 0.5, 1, 1.5, 2,
    3, 4, 5}, y = +-{0.25, 0.5, 1, 1.5}. The last action is also observed, and `frames` is the number of past values of
    both. `base_pressures` reduces the number of the base pressures, of which neighbours differ little.
5.  Reward: the power saved, drag reference - C_D - C_P, where C_P is the sum of |Q|^3 / S^2 over both jets and S the
    width of a slot. It is twice the authors' value, whose unit is rho U^3 D.

Differences from the paper
--------------------------
1.  Box of 16 x 8 D cut out of an unbounded stream; the authors have 47 x 25 D.
2.  The flow rate follows a linear ramp to its command over the action; the authors approach it by a tenth per step.
3.  The base pressures are sensed one cell behind the face, since the cells in it are solid.
4.  The authors have 27 frames; `frames` is 1 here, since a learner with memory does not need more.
5.  Episodes of `quick` have 160 actions.
6.  Grid: at 20 cells per D a slot is 2 cells wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow
from cases.initial_flows import Development
from cases.jet_task import JetOptions, JetTask
from cases.sensors import History, PastActions, Probes, Sensor
from flowsim import Jet, polygon

BOX = (16.0, 8.0)
CENTER = (4.0, 4.0)
SLOT = 0.1
WAKE = tuple(
    (0.5 + x, y)
    for x in (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
    for y in (-1.5, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 1.5)
)
DEVELOPMENT = Development(time=150.0, snapshots=30, spacing=2.1, split=True)
"""Long enough for the vortex street to be periodic; each third of the states covers three periods."""


def base_points(number: int, cells_per_diameter: float) -> list[tuple[float, float]]:
    """Return points one cell behind the rear face, evenly spaced, relative to the centre of the square."""
    behind, pieces = 0.5 + 1.0 / cells_per_diameter, number + 1
    return [(behind, -0.5 + n / pieces) for n in range(1, pieces)]


class SquareJetsOptions(JetOptions):
    """Options of flowsim/SquareJets-v0; their defaults are those of the preset `quick`."""

    cells_per_diameter: float = Field(20.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(160, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(0.5, gt=0.0, le=100.0, description="time one action is held")
    sensors: Literal["base", "wake"] = "base"
    base_pressures: int = Field(64, ge=2, le=64, description='how many "base" has, evenly spaced')
    frames: int = Field(1, ge=1, le=100, description="last measurements and actions observed")
    drag_reference: float = Field(
        1.425, description="C_D without control, from which the reward counts"
    )

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in D."""
        return BOX

    @model_validator(mode="after")
    def _are_observed(self) -> Self:
        if self.sensors != "base" and self.base_pressures != 64:
            raise ValueError(
                f"base_pressures = {self.base_pressures}: sensors = {self.sensors!r} has no base pressures"
            )
        return self


class SquareJets(JetTask[SquareJetsOptions]):
    """The task of `SquareJetsEnv`; the jets are the upper and the lower one."""

    options_class = SquareJetsOptions
    folder = Path(__file__).parent
    slot_width = SLOT

    def flow(self) -> Flow:
        """Return the square in an unbounded stream."""
        square = polygon([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)], center=CENTER)
        jets = [Jet(point=(0.45, y), width=SLOT, profile="parabolic") for y in (0.5, -0.5)]
        return Flow(bodies=[square], jets=jets)

    @property
    def development(self) -> Development:
        """Development of the shedding wake, from whose stored states episodes start."""
        return DEVELOPMENT

    def sensors(self) -> Sequence[Sensor]:
        """Return the pressures and the last action, `frames` of each."""
        options = self.options
        base = base_points(options.base_pressures, options.cells_per_diameter)
        points = np.array(base if options.sensors == "base" else WAKE) + CENTER
        probes = Probes(points, "pressure")
        now: Sensor = probes if options.frames == 1 else History(probes, options.frames)
        return [now, PastActions(options.frames)]


class SquareJetsEnv(FlowEnv):
    """flowsim/SquareJets-v0: two jets at the rear corners of a square cylinder lower its drag, with limited sensing.

    Lengths are in the side D of the square, velocities in the stream's U, times in D/U; rho is the density of the
    fluid. x runs along the stream and y upwards; Re = U D/nu = 100.

    Observation, float32 of shape (65,):

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0 to 63 | pressure at the rear face (with `sensors` "wake", in the wake) | rho U^2 | 1000 |
    | 64 | the last action | | 1 |

    Action, float32 of shape (1,), from -1 to 1 (clipped): the flow rate of the upper jet, 0.1 U D at 1; the lower jet
    has the opposite flow rate. It is reached by a linear ramp over 0.5 D/U.

    Reward of an action: `drag_reference` - C_D - C_P, where C_P is the coefficient of the power of the jets.

    An episode starts from a stored state of the shedding wake; training, validation and test use different states. It
    is truncated after 160 actions, 80 D/U.

    These numbers apply to the default preset, `quick`. Other presets: `default` (finer grid, longer episodes), `wake`
    (probes in the wake), `memory` (four base pressures).
    Options are the fields of `SquareJetsOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = SquareJets


class SquareJetsVectorEnv(FlowVectorEnv):
    """flowsim/SquareJets-v0, a batch of flows in one simulation.

    Observations (num_envs, 65), actions (num_envs, 1), rewards and options are those of `SquareJetsEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = SquareJets
