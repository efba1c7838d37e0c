"""Tasks with their flows on the device."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cases  # noqa: F401
from cases.backward_step.env import BackwardStepVectorEnv
from cases.cylinder_jets.env import CylinderJetsVectorEnv
from cases.d_cylinder_wake import env as wake
from cases.d_cylinder_wake.env import DCylinderWakeVectorEnv
from cases.elliptical_swimmer.env import EllipticalSwimmerVectorEnv
from cases.flow_env import FlowVectorEnv
from cases.flow_task import FlowTask
from cases.fluidic_pinball.env import FluidicPinballVectorEnv
from cases.initial_flows import Development
from cases.open_cavity import env as cavity
from cases.pitching_foil.env import PitchingFoilVectorEnv
from cases.rayleigh_benard.env import HeatersVectorEnv, RayleighBenardVectorEnv
from cases.rotating_cylinder.env import RotatingCylinderVectorEnv
from cases.square_jets import env as square_jets
from cases.swimmer_school.env import SwimmerSchoolVectorEnv


def assert_same(seen: list) -> None:
    """Observations, which have single precision, rewards, flags and loads."""
    (*cpu, cpu_info), (*cuda, cuda_info) = seen
    for expected, got in zip(cpu, cuda, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
    for name in ("drag", "lift", "torque", "power", "solver_steps"):
        np.testing.assert_allclose(
            np.stack(cuda_info[name]).astype(float),
            np.stack(cpu_info[name]).astype(float),
            atol=1e-8,
        )


def test_an_action_is_the_same_on_both_backends(tiny: bool) -> None:
    options = {
        "cells_per_diameter": 4.0 if tiny else 32.0,
        "dtype": "float64",
        "action_time": 0.1 if tiny else 1.0,
    }
    seen = []
    for backend in ("cpu", "cuda"):
        env = EllipticalSwimmerVectorEnv(1, backend=backend, **options)
        seen.append([env.reset(seed=5)[0], *env.step(np.array([[0.3, -0.2, 0.1]]))])
    assert_same(seen)


@pytest.mark.gpu
def test_agent_leaving_the_box_is_the_same_on_both_backends() -> None:
    """One agent leaves the box in the first step of an action, and is reset within it."""
    seen = []
    for backend in ("cpu", "cuda"):
        options = {
            "cells_per_diameter": 16,
            "start": "impulsive",
            "start_range": "paper",
            "dtype": "float64",
        }
        env = DCylinderWakeVectorEnv(2, autoreset_mode="SameStep", backend=backend, **options)
        observations, _ = env.reset(seed=5)
        env.task.simulation.body_state.position[1, 1] = (2.29, 2.0)
        seen.append([observations, *env.step(np.array([[0.3, -0.2, 0.1], [-1.0, 0.0, 0.0]]))])
    assert_same(seen)
    assert seen[0][3].tolist() == [False, True]


@pytest.mark.slow  # two bodies, thread by thread
def test_a_batch_starts_as_on_the_cpu(
    tiny: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both simulations at once, with wakes stored on the device."""
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))
    short = Development(time=0.5, snapshots=3, spacing=0.25, bodies=1)
    monkeypatch.setattr(wake, "DEVELOPMENT", short)
    options = {"cells_per_diameter": 4 if tiny else 16, "dtype": "float64"}
    cpu, cuda = (
        DCylinderWakeVectorEnv(2, backend=backend, **options) for backend in ("cpu", "cuda")
    )
    for env in (cpu, cuda):
        env.episodes.start({index: np.random.default_rng(index) for index in (1, 0)})
    for b in range(2):
        expected, got = (env.task.simulation.get_state(b) for env in (cpu, cuda))
        del expected["sides"]  # values beyond the ends of a side are undefined
        for name, values in expected.items():
            np.testing.assert_allclose(got[name], values, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(cuda.task.simulation.sensed, cpu.task.simulation.sensed, atol=1e-9)


@pytest.mark.slow  # 48 x 30 cells, thread by thread
def test_deviation_energy_is_the_same_on_both_backends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))
    short = Development(time=0.5, snapshots=3, spacing=0.25, push=0.0, split=True)
    monkeypatch.setattr(cavity, "DEVELOPMENT", short)
    monkeypatch.setattr(cavity, "STEADY", Development(0.5, 1, 0.25, push=0.0, damping=(1.2, 0.5)))
    seen, energies = [], []
    for backend in ("cpu", "cuda"):
        env = cavity.OpenCavityVectorEnv(
            1, backend=backend, cells_per_diameter=20, dtype="float64", action_time=0.02
        )
        seen.append([env.reset(seed=5)[0], *env.step(np.array([[0.5]]))])
        energies.append(env.task.energy())
    assert_same(seen)
    assert energies[0] > 0.0
    np.testing.assert_allclose(energies[1], energies[0], rtol=1e-6)


SHORT = Development(time=0.1, snapshots=3, spacing=0.05, split=True)
IN_THE_SIMULATOR: dict[type[FlowVectorEnv], tuple[tuple[float, float] | None, dict[str, Any]]] = {
    CylinderJetsVectorEnv: ((7.0, 4.5), {"cells_per_diameter": 8}),
    square_jets.SquareJetsVectorEnv: ((8.0, 8.0), {"cells_per_diameter": 5}),
    RotatingCylinderVectorEnv: ((9.0, 8.0), {"cells_per_diameter": 4}),
    FluidicPinballVectorEnv: ((12.0, 9.0), {"cells_per_diameter": 4}),
    PitchingFoilVectorEnv: ((5.0, 4.0), {"cells_per_diameter": 6}),
    BackwardStepVectorEnv: ((18.0, 2.0), {"cells_per_diameter": 5}),
    RayleighBenardVectorEnv: (None, {"cells_per_height": 8}),
    HeatersVectorEnv: (None, {"cells_per_height": 8}),
    SwimmerSchoolVectorEnv: (None, {"cells_per_length": 8, "swimmers": 2, "box": (2.5, 2.0)}),
}
"""Box and options with which a flow of each task is small enough for the simulator of a GPU."""


@pytest.mark.slow  # thread by thread
@pytest.mark.parametrize("env_class", IN_THE_SIMULATOR, ids=lambda env: env.task_class.__name__)
def test_tasks_are_the_same_on_both_backends(
    env_class: type[FlowVectorEnv], tiny: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Actuators, sensors and rewards of a task, in flows from a bank: two random actions, the second from the first."""
    task = env_class.task_class
    box, options = IN_THE_SIMULATOR[env_class] if tiny else (None, {})
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))
    if task.development is not FlowTask.development:
        monkeypatch.setattr(task, "development", SHORT)
    # At (4, 4) points of the grid lie on the surface of the square: rounding decides on which side, and thereby whether
    # their penalised share contains the leak of a solid, 1 / (1 + lambda dt).
    monkeypatch.setattr(square_jets, "CENTER", (4.03, 4.01))
    if box is not None:
        monkeypatch.setattr(task.options_class, "box", lambda self: box)
    seen = []
    for backend in ("cpu", "cuda"):
        env = env_class(1, backend=backend, dtype="float64", action_time=0.1, **options)
        env.action_space.seed(5)
        observations = [env.reset(seed=5)[0]]
        for _ in range(2):
            observation, *rest = env.step(env.action_space.sample())
            observations.append(observation)
        seen.append([np.stack(observations), *rest])
    assert np.ptp(seen[0][0], axis=0).max() > 1e-4
    assert_same(seen)
