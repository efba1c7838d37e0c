"""torch is imported on first use, with one thread, and not before."""

import subprocess
import sys

CODE = """
import sys
from coupling.commands import cli

sys.argv = ["flowsim", "--version"]
try:
    cli.main()
except SystemExit:
    pass
import numpy as np
from gymnasium.spaces import Box

import coupling.run.run
from rl_agent import AgentConfig
from coupling.run.warmup import run_warmup

box = Box(-1.0, 1.0, (2,), np.float32)
small = {"hidden": (4,), "threads": 1}
run_warmup(AgentConfig(algorithm="vracer", **small), box, box)
print("torch" in sys.modules)
run_warmup(AgentConfig(algorithm="ppo", **small), box, box)
print("torch" in sys.modules)

import torch

print(torch.get_num_threads())
"""


def test_torch_is_imported_on_first_use() -> None:
    process = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[1:] == ["False", "True", "1"]
