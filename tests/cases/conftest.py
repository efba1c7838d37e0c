"""Tiny flow tasks, and a cache of developed flows that no other run sees."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import cases  # noqa: F401
from cases.d_cylinder_wake import env as wake
from flowsim.backend.cpu import object_code

IDS = ("flowsim/DCylinderWake-v0", "flowsim/EllipticalSwimmer-v0")
TINY = {"cells_per_diameter": 8}


@pytest.fixture(scope="session", autouse=True)
def wake_cache(tmp_path_factory):
    """Build short banks in a cache folder of this test session."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        # compiled code stays in its usual cache: a process with an empty folder would compile everything again
        patch.setenv("NUMBA_CACHE_DIR", str(object_code.CACHE_FOLDER.parents[1]))
        patch.setenv("FLOWSIM_CACHE", str(folder))
        patch.setattr(wake, "DEVELOPMENT", replace(wake.DEVELOPMENT, time=8.0, snapshots=4))
        yield folder


@pytest.fixture
def make():
    """Make a single tiny environment."""

    def _make(env_id=IDS[0], **options):
        return gymnasium.make(env_id, **(TINY | options)).unwrapped

    return _make


@pytest.fixture
def make_vec():
    """Make a batch of tiny environments, by default with autoreset in the same step."""

    def _make(env_id=IDS[0], num_envs=3, **options):
        options = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP} | options
        return gymnasium.make_vec(
            env_id, num_envs=num_envs, vectorization_mode="vector_entry_point", **(TINY | options)
        )

    return _make


@pytest.fixture
def actions():
    """A fixed sequence of random actions, shape (12, 3, 3)."""
    return np.random.default_rng(7).uniform(-1.0, 1.0, (12, 3, 3)).astype(np.float32)
