"""torch comes when it is used, without what only its compilers need, and has that once they ask."""

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
from coupling.run.warmup import rehearse

box = Box(-1.0, 1.0, (2,), np.float32)
small = {"hidden": (4,), "threads": 1}
rehearse(AgentConfig(algorithm="vracer", **small), box, box)
print("torch" in sys.modules)
rehearse(AgentConfig(algorithm="ppo", **small), box, box)
print("torch" in sys.modules)

import torch

print(torch.get_num_threads())
print("left out" if not hasattr(torch._meta_registrations, "register_meta") else "there")

from torch.fx.experimental.proxy_tensor import make_fx

function = lambda x: torch.linalg.solve_ex(x @ x, torch.nn.functional.softplus(x)).result.sum()
traced = make_fx(function, tracing_mode="fake")(torch.eye(3) + 0.5)
print("left out" if not hasattr(torch._meta_registrations, "register_meta") else "there")
print(traced(torch.eye(3) + 0.25).item() == function(torch.eye(3) + 0.25).item())
"""


def test_torch_and_its_kernels_come_when_they_are_needed() -> None:
    process = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[1:] == ["False", "True", "1", "left out", "there", "True"]
