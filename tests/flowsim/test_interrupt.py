"""Ctrl-C during a long advance, sent as a real signal to a real process."""

import json
import subprocess
import sys

import pytest

STEPS_OF_A_TURN = 50
"""Of 2048 x 1024 cells: threads look at signals every twentieth of a second, and none is that fast."""

CHILD = """
import json, os, signal, sys, threading, time
import numpy as np
from flowsim import Disk, Grid, Simulation

signal.signal(signal.SIGINT, signal.default_int_handler)
threads, (nx, ny) = int(sys.argv[1]), (2048, 1024)

def flow():
    body = Disk(center=(2.0, 2.0))
    return Simulation(Grid(nx, ny, 8.0 / nx), bodies=[body], viscosity=1 / 400, threads=threads)

sim, at_signal = flow(), []

def interrupt():
    while sim.steps[0] < 5:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
    at_signal.append(int(sim.steps[0]))  # read after the signal: what comes between does not count

signals = threading.Thread(target=interrupt, daemon=True)
signals.start()
try:
    sim.advance(1e9)
except KeyboardInterrupt:
    interrupted = int(sim.steps[0])
signals.join()  # it may have been held up since the signal
before = sim.get_state()
sim.advance_steps(2)
again = flow()
again.advance(1e9, stop=lambda flows: flows.steps >= interrupted)
same = all(np.array_equal(again.get_state()[name], array) for name, array in before.items())
again.advance_steps(2)
continues = np.array_equal(again.get_state()["u"], sim.get_state()["u"])
print(json.dumps([at_signal[0], interrupted, same, continues]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_advance_between_two_steps(threads: int) -> None:
    """The flow then equals that after as many uninterrupted steps, and can continue."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(threads)],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    at_signal, interrupted, same, continues = json.loads(child.stdout)
    assert 5 <= at_signal <= interrupted <= at_signal + STEPS_OF_A_TURN
    assert same
    assert continues
