import subprocess
import sys

import pytest

from rl_agent.blas import choose_kernels

ZEN_5 = "vendor_id\t: AuthenticAMD\nflags\t: fpu avx2 avx512f avx512dq avx512cd avx512bw avx512vl\n"
CPUS = {
    "zen 5": (ZEN_5, "SkylakeX"),
    "zen 3": (ZEN_5.replace("avx512vl", ""), None),
    "intel": (ZEN_5.replace("AuthenticAMD", "GenuineIntel"), None),
}


@pytest.mark.parametrize("cpu", CPUS)
def test_amd_with_avx512_gets_the_kernels_that_it_can_run(cpu, tmp_path):
    text, expected = CPUS[cpu]
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    environment: dict[str, str] = {}
    choose_kernels(environment, path)
    assert environment.get("OPENBLAS_CORETYPE") == expected


def test_a_choice_that_was_made_stays_and_a_missing_file_is_no_error(tmp_path):
    (tmp_path / "cpuinfo").write_text(ZEN_5)
    environment = {"OPENBLAS_CORETYPE": "Zen"}
    choose_kernels(environment, tmp_path / "cpuinfo")
    assert environment == {"OPENBLAS_CORETYPE": "Zen"}
    choose_kernels(empty := {}, tmp_path / "nothing")
    assert empty == {}


@pytest.mark.parametrize("module", ["rl_agent.learner", "coupling.run", "coupling.bench"])
def test_numpy_comes_after_the_choice(module):
    """What trains: OpenBLAS reads the variable when NumPy loads it."""
    program = f"""
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print("OPENBLAS_CORETYPE" in os.environ)
            sys.meta_path.remove(self)
sys.meta_path.insert(0, Watch())
import pathlib
read = pathlib.Path.read_text
pathlib.Path.read_text = lambda self, **k: {ZEN_5!r} if str(self) == "/proc/cpuinfo" else read(self, **k)
import {module}
"""
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split()[0] == "True"
