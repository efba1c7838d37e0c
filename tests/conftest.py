"""Settings of all tests: fewer threads per pytest-xdist worker, no deadlines, and a summary of skipped tests."""

import atexit
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter

if "PYTEST_XDIST_WORKER" in os.environ:  # before the first import of a numerical library
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import hypothesis
import pytest

# tests started in the background or by nohup ignore these signals, and every process of a test would inherit that
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# training runs of tests must not be recorded in the user's notes
os.environ["XDG_STATE_HOME"] = _state = tempfile.mkdtemp(prefix="flowsim-tests-state-")
atexit.register(shutil.rmtree, _state, ignore_errors=True)

hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

# text in the reason of a skip, and how to enable the skipped tests; the first match counts
HOW = {
    "numba's simulator": "`make test` runs them in numba's simulator beside these; on a machine with a GPU, `make gpu`",
    "header of libzmq": "install a C compiler and the header: `apt install gcc make libzmq3-dev` on Debian",
    "gfortran": "install a Fortran compiler: `apt install gfortran` on Debian",
    "cuda13": "`pip install 'flowsim-rl[cuda13]'`, on any machine",
    "there is a": "a machine without a GPU",
    "CUDA|GPU": "a machine with an NVIDIA GPU, and `make gpu`",
    "Ray|submitit": "`make test-all`, which installs the optional libraries",
    "stable_baselines3": "`pip install 'flowsim-rl[sb3]'`",
    "extra docs": "`pip install 'flowsim-rl[docs]'`",
    "mujoco": "`pip install 'flowsim-rl[mujoco]'`",
    "moviepy": "`pip install 'flowsim-rl[video]'`",
    "torchrl": "`pip install 'flowsim-rl[torchrl]'`",
    "loopback": "a machine with a network",
    "Chromium": "install a browser: `apt install chromium` on Debian",
}


@pytest.fixture(autouse=True)
def signals_as_before():
    """Restore signal handlers after a test: an interrupted run ignores signals, and child processes inherit that."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def c_tools():
    """The tools that build the C client; tests that use this fixture are skipped if they are not installed."""
    compiler, make = shutil.which("cc"), shutil.which("make")
    if compiler and make:
        command = [compiler, "-fsyntax-only", "-x", "c", "-"]
        tried = subprocess.run(command, input=b"#include <zmq.h>\n", capture_output=True)
        if tried.returncode == 0:
            return compiler
    pytest.skip("no C compiler, make or header of libzmq (Debian: gcc make libzmq3-dev)")


def how_to_have(reason):
    return next((how for words, how in HOW.items() if re.search(words, reason)), "")


def pytest_terminal_summary(terminalreporter):
    """Print a line for each reason of a skip: how many tests, and how to enable them."""
    reports = [
        report
        for report in terminalreporter.getreports("skipped")
        if not hasattr(report, "wasxfail")
    ]
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    if reasons:
        terminalreporter.section("skipped here, and how to have it")
    for reason, count in reasons.most_common():
        how = how_to_have(reason)
        terminalreporter.line(
            f"{count} skipped: {' '.join(reason.split())}{f'. To have them: {how}' if how else ''}"
        )
