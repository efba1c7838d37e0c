"""Gymnasium's AsyncVectorEnv: child processes of a process that has stepped an environment step their own."""

import subprocess
import sys

import pytest

CODE = """
import sys
import gymnasium
import numpy as np
import cases

options = {"preset": "quick", "start": "impulsive"}

def main():
    alone = gymnasium.make("flowsim/DCylinderWake-v0", **options)
    first, _ = alone.reset(seed=3)
    second = alone.step(np.full(3, 0.5, np.float32))[0]
    both = gymnasium.make_vec("flowsim/DCylinderWake-v0", num_envs=2, vectorization_mode="async",
                              vector_kwargs={"context": sys.argv[1]}, **options)
    observations, _ = both.reset(seed=[3, 4])
    assert np.array_equal(observations[0], first), (observations, first)
    observations = both.step(np.full((2, 3), 0.5, np.float32))[0]
    assert np.array_equal(observations[0], second)
    both.close()

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a busy machine may take long to compile
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_environments_in_separate_processes(context, tmp_path):
    script = tmp_path / "both.py"
    script.write_text(CODE)
    subprocess.run([sys.executable, str(script), context], check=True, timeout=1500)
