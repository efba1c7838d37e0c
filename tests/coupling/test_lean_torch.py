"""The command line's torch starts without what only its compilers need, and has it once they ask."""

import subprocess
import sys

CODE = """
import sys
from coupling.commands import cli

sys.argv = ["flowsim", "--version"]
try:
    cli.main()
except SystemExit:
    import torch
print("left out" if not hasattr(torch._meta_registrations, "register_meta") else "there")

from torch.fx.experimental.proxy_tensor import make_fx

function = lambda x: torch.linalg.solve_ex(x @ x, torch.nn.functional.softplus(x)).result.sum()
traced = make_fx(function, tracing_mode="fake")(torch.eye(3) + 0.5)
print("left out" if not hasattr(torch._meta_registrations, "register_meta") else "there")
print(traced(torch.eye(3) + 0.25).item() == function(torch.eye(3) + 0.25).item())
"""


def test_the_kernels_of_tensors_without_data_come_when_they_are_needed() -> None:
    process = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[1:] == ["left out", "there", "True"]
