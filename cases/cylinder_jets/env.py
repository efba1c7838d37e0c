"""flowsim/CylinderJets-v0: two jets of zero net flux lower the drag of a cylinder in a channel.

After Rabault et al. (2019, J. Fluid Mech. 865 281). Units: the cylinder's diameter D, the mean velocity U of the
channel, T = D/U, density of the fluid 1.

Sources of the parameters (the authors' code, Cylinder2DFlowControlDRL and its parallel version)
------------------------------------------------------------------------------------------------
1.  Channel of Schaefer & Turek (1996), Re 100 based on the mean velocity.
2.  Jets at 90 and -90 degrees, 10 degrees wide, radial, with a cosine profile and opposite flow rates: at a command of
    1 the upper jet blows Q = 0.1 U D, with a peak of 1.8 U at the wall, and the lower one sucks as much. The flow rate
    follows a linear ramp over the action (parallel version).
3.  Action of 0.25 D/U, a thirteenth of a shedding period; episode of 80 actions.
4.  Pressure probes: 151, in a grid around and behind the cylinder and on two rings. The paper also has sets of 11 and 5
    (`probes`); their positions here are ours.
5.  Reward: drag reference - C_D - 0.2 |C_L|, averaged over the action; drag and lift contain the momentum of the jets.
    It is 20 times the authors' because of their units of force. `power_weight` and `lift_weight` penalise the power of
    the jets and the lift: the preset `priced` has the full power of the jets and FluidGym's full weight of the lift.
6.  The power of the jets is the sum of |Q|^3 / S^2 over both, where S is the width of a slot: Xia et al. (2024, J.
    Fluid Mech.).

Differences from the paper
--------------------------
1.  Every episode starts from a stored state of the shedding wake; training, validation and test use different states.
    The authors continue from the last state in four of five episodes.
2.  The last action is also observed.
3.  Grid: at 20 cells per D a slot is 1.7 cells wide, at 40 (preset `default`) 3.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from cases import schaefer_turek
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_task import Flow
from cases.initial_flows import Development
from cases.jet_task import JetOptions, JetTask
from cases.sensors import PastActions, Probes, Sensor
from flowsim import Disk, Jet

SLOT = np.radians(10.0)
RINGS = [
    (r * np.cos(angle), r * np.sin(angle))
    for r in (0.7, 1.0)
    for angle in np.radians(np.arange(0.0, 360.0, 10.0))
]
FIRST = [(0.75, -0.5), (0.75, 0.5)]
"""The first two probes of every set, so that feedback of their difference works with each."""
GRID = [
    *(
        (x, y)
        for x in (0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5)
        for y in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)
    ),
    *((x, y) for x in (-0.25, 0.0, 0.25, 0.5) for y in (-1.5, -1.0, 1.0, 1.5)),
]
PROBES = {
    151: [*FIRST, *(place for place in GRID if place not in FIRST), *RINGS],
    11: [
        *FIRST,
        (0.75, 0.0),
        *((x, y) for x in (1.5, 2.5) for y in (-0.5, 0.0, 0.5)),
        (0.0, -0.7),
        (0.0, 0.7),
    ],
    5: [*FIRST, (1.5, -0.5), (1.5, 0.5), (2.5, 0.0)],
}
"""Sets of probes by their number; positions relative to the centre of the cylinder."""


class CylinderJetsOptions(JetOptions):
    """Options of flowsim/CylinderJets-v0; their defaults are those of the preset `quick`."""

    reynolds: float = Field(100.0, gt=0.0, description="U D / nu of the mean velocity")
    cells_per_diameter: float = Field(20.0, ge=4.0, description="resolution D/h")
    episode_actions: int = Field(80, ge=1, description="actions until an episode is truncated")
    action_time: float = Field(0.25, gt=0.0, le=100.0, description="time one action is held")
    probes: Literal[151, 11, 5] = Field(151, description="number of pressure probes")
    power_weight: float = Field(
        0.0, ge=0.0, description="weight of the jets' power in the reward; 1 for the net power"
    )
    lift_weight: float = Field(
        0.2, ge=0.0, description="weight of |C_L| of an action in the reward"
    )
    drag_reference: float = Field(
        3.32, description="C_D without control, from which the reward counts"
    )

    def box(self) -> tuple[float, float]:
        """Return width and height of the box in D."""
        return schaefer_turek.BOX


class CylinderJets(JetTask[CylinderJetsOptions]):
    """The task of `CylinderJetsEnv`; the jets are the upper and the lower one."""

    options_class = CylinderJetsOptions
    folder = Path(__file__).parent
    slot_width = 0.5 * SLOT

    def flow(self) -> Flow:
        """Return the cylinder in the channel."""
        jets = [Jet(angle=angle, width=SLOT) for angle in (0.5 * np.pi, -0.5 * np.pi)]
        return Flow(
            bodies=[Disk(diameter=1.0, center=schaefer_turek.CENTER)],
            sides=schaefer_turek.SIDES,
            jets=jets,
        )

    @property
    def development(self) -> Development:
        """Development of the shedding wake, from whose stored states episodes start."""
        return schaefer_turek.DEVELOPMENT

    def sensors(self) -> Sequence[Sensor]:
        """Return the pressure at the probes, and the last action."""
        probes = np.array(PROBES[self.options.probes]) + schaefer_turek.CENTER
        return [Probes(probes, "pressure"), PastActions()]


class CylinderJetsEnv(FlowEnv):
    """flowsim/CylinderJets-v0: two jets of zero net flux lower the drag of a cylinder in a channel.

    Lengths are in the cylinder's diameter D, velocities in the channel's mean U, times in D/U; rho is the density of
    the fluid. x runs along the channel and y upwards; Re = U D/nu = 100.

    Observation, float32 of shape (152,):

    | index | what | unit | bound |
    | --- | --- | --- | --- |
    | 0 to 150 | pressure at the probes: 63 behind the cylinder, 16 next to it, two rings of 36 | rho U^2 | 1000 |
    | 151 | the last action | | 1 |

    Action, float32 of shape (1,), from -1 to 1 (clipped): the flow rate of the upper jet, 0.1 U D at 1; the lower jet
    has the opposite flow rate. It is reached by a linear ramp over 0.25 D/U.

    Reward of an action: `drag_reference` - C_D - 0.2 |C_L|. `power_weight` and `lift_weight` change the weights.

    An episode starts from a stored state of the shedding wake; training, validation and test use different states. It
    is truncated after 80 actions, 20 D/U.

    These numbers apply to the default preset, `quick`. Other presets: `default` (finer grid), `priced`.
    Options are the fields of `CylinderJetsOptions`; see `FlowEnv` for the contents of `info`.
    """

    task_class = CylinderJets


class CylinderJetsVectorEnv(FlowVectorEnv):
    """flowsim/CylinderJets-v0, a batch of flows in one simulation.

    Observations (num_envs, 152), actions (num_envs, 1), rewards and options are those of `CylinderJetsEnv`. See
    `FlowVectorEnv` for autoreset.
    """

    task_class = CylinderJets
