"""Tasks with their flows on the device."""

from pathlib import Path

import numpy as np
import pytest

import cases  # noqa: F401
from cases.d_cylinder_wake import wake_bank
from cases.d_cylinder_wake.env import DCylinderWakeVectorEnv
from cases.elliptical_swimmer.env import EllipticalSwimmerVectorEnv


def assert_same(seen: list) -> None:
    """Observations, rewards, flags and loads."""
    cpu, cuda = seen
    for expected, got in zip(cpu[:5], cuda[:5], strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
    for name in ("drag", "lift", "torque", "power", "solver_steps"):
        np.testing.assert_allclose(
            np.stack(cuda[5][name]).astype(float), np.stack(cpu[5][name]).astype(float), atol=1e-8
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
def test_losing_an_agent_is_the_same_on_both_backends() -> None:
    """One agent leaves the box in the first step of an action, and starts again within it."""
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


@pytest.mark.parametrize("start", ["developed", "impulsive"])
def test_a_batch_starts_as_on_the_cpu(
    start: str, tiny: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once and, on the device, one at a time; the wakes lie there, too."""
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))
    monkeypatch.setattr(wake_bank, "DEVELOPMENT_TIME", 0.5)
    monkeypatch.setattr(wake_bank, "SNAPSHOTS", 3)
    monkeypatch.setattr(wake_bank, "SPACING", 0.25)
    options = {"cells_per_diameter": 4 if tiny else 16, "start": start, "dtype": "float64"}
    cpu, cuda, alone = (
        DCylinderWakeVectorEnv(3, backend=backend, **options) for backend in ("cpu", "cuda", "cuda")
    )
    for env in (cpu, cuda):
        env.episodes.start({index: np.random.default_rng(index) for index in (2, 0)})
    for index in (2, 0):
        alone.episodes.start({index: np.random.default_rng(index)})
    for b in range(3):
        one, two, three = (env.task.simulation.get_state(b) for env in (cpu, cuda, alone))
        for name, expected in one.items():
            np.testing.assert_allclose(two[name], expected, atol=1e-9, err_msg=name)
            np.testing.assert_array_equal(two[name], three[name], err_msg=name)
