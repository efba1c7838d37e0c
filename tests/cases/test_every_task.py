"""What every flow task must do: copies and restored states continue bit for bit; a diverging flow harms no other."""

import copy
import importlib
import pickle
import re
import warnings
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

import cases  # also registers the ids
from cases import schaefer_turek
from cases.backward_step import env as step
from cases.fluidic_pinball import env as pinball
from cases.open_cavity import env as cavity
from cases.pitching_foil import env as foil
from cases.rayleigh_benard import env as convection
from cases.rotating_cylinder import env as cylinder
from cases.square_jets import env as square

TINY = {
    "BackwardStep": {"cells_per_diameter": 8},
    "CylinderJets": {"cells_per_diameter": 20},
    "DCylinderWake": {"cells_per_diameter": 8},
    "EllipticalSwimmer": {"cells_per_diameter": 8},
    "FluidicPinball": {"cells_per_diameter": 4},
    "OpenCavity": {"cells_per_diameter": 20},
    "PitchingFoil": {"cells_per_diameter": 8},
    "RayleighBenard": {"cells_per_height": 12},
    "RotatingCylinder": {"cells_per_diameter": 4},
    "SquareJets": {"cells_per_diameter": 8},
    "SwimmerSchool": {"swimmers": 3, "cells_per_length": 16, "box": (4.0, 2.0), "thickness": 0.08},
}
COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda env: pickle.loads(pickle.dumps(env))}


@pytest.fixture(scope="module", autouse=True)
def _short_developments():
    with pytest.MonkeyPatch.context() as patch:
        for task in (step, schaefer_turek, pinball, cavity, foil, convection, cylinder, square):
            short = replace(task.DEVELOPMENT, time=2.0, spacing=0.2)
            patch.setattr(task, "DEVELOPMENT", short)
        patch.setattr(cavity, "STEADY", replace(cavity.STEADY, time=2.0))
        yield


def make(name, **options):
    return gymnasium.make(f"flowsim/{name}-v0", **(TINY[name] | options)).unwrapped


def make_vec(name):
    return gymnasium.make_vec(
        f"flowsim/{name}-v0", num_envs=2, vectorization_mode="vector_entry_point", **TINY[name]
    )


def test_every_flow_task_is_here():
    found = set()
    for spec in gymnasium.registry.values():
        # other tests register tasks without an entry point for a single environment
        if spec.namespace == "flowsim" and None not in (spec.entry_point, spec.vector_entry_point):
            module = importlib.import_module(spec.entry_point.partition(":")[0])
            assert hasattr(module, f"{spec.name}VectorEnv")
            found.add(spec.name)
    assert found == set(TINY)


@pytest.mark.parametrize("name", TINY)
def test_copies_and_restored_states_continue_bit_for_bit(name):
    """Also a copy, and a new environment that takes over the state, that were never reset themselves."""
    env = make(name, episode_actions=3)
    fresh = copy.deepcopy(env)
    env.reset(seed=1)
    actions = np.random.default_rng(2).uniform(-0.5, 0.5, (5, *env.action_space.shape))
    env.step(actions[0].astype(np.float32))
    restored = make(name, episode_actions=3)
    restored.set_state(env.get_state())
    twins = [restored, *(copied(env) for copied in COPIES.values())]
    logs = [[] for _ in (env, *twins)]
    for other, log in zip((env, *twins), logs, strict=True):
        for action in actions[1:].astype(np.float32):
            seen, reward, terminated, truncated, info = other.step(action)
            if terminated or truncated:
                seen, info = other.reset()
            log.append((seen, reward, info))
    for log in logs[1:]:
        assert data_equivalence(log, logs[0], exact=True)
    np.testing.assert_array_equal(fresh.reset(seed=1)[0], make(name).reset(seed=1)[0])


@pytest.mark.parametrize("bad", [900.0, 1e20, np.inf, np.nan])
@pytest.mark.parametrize("name", TINY)
def test_flow_that_diverges_gets_a_bad_finite_reward_and_harms_no_other(name, bad):
    envs, alone = make_vec(name), make_vec(name)
    for one in (envs, alone):
        one.reset(seed=[3, 4])
    envs.unwrapped.task.simulation.u[1, 12, 8] = bad
    still = np.zeros(envs.action_space.shape, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            seen, rewards, terminated, _, infos = envs.step(still)
            expected = alone.step(still)
            assert np.isfinite(seen).all()
            assert np.isfinite(rewards).all()
            np.testing.assert_array_equal(seen[0], expected[0][0])
            assert rewards[0] == expected[1][0]
            if infos["diverged"][1]:
                assert terminated[1]
                assert rewards[1] == envs.unwrapped.task.divergence_reward <= -1.0
                break
        else:
            assert bad == 900.0, "only a finite disturbance may decay"


@pytest.mark.parametrize("name", cases.FLOW_TASKS)
def test_class_docstring_names_all_presets(name):
    folder = Path(cases.__file__).parent / cases.FLOW_TASKS[name]
    presets = {
        file.stem
        for file in folder.glob("*.yaml")
        if f"env: flowsim/{name}-v0\n" in file.read_text()
    }
    module = importlib.import_module(f"cases.{folder.name}.env")
    assert presets <= set(re.findall(r"`(\w+)`", getattr(module, f"{name}Env").__doc__))
