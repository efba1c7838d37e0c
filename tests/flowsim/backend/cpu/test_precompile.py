"""Sweeps are compiled once, on all cores, before their first call; one thread needs no thread pool."""

import functools
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from flowsim.backend.cpu import flow
from flowsim.backend.cpu.compiling import OPTIONS, Task
from flowsim.backend.cpu.room import PLACE_COLUMNS, ROW_SUMS, Room
from flowsim.kernels.layout import CLOCK_COLUMNS, FLAGS
from flowsim.kernels.records import Box, Clock, Fields

pytestmark = pytest.mark.timeout(1800)  # a busy machine may take long to compile

MODULE = """
import os
from numba.extending import intrinsic
from flowsim.backend.cpu.compiling import sweep

def noting(name):
    @intrinsic
    def note(typing_context, x):
        with open(os.environ["NOTES"], "a") as file:
            file.write(f"{name} {os.getpid()}\\n")
        return x(x), lambda context, builder, signature, arguments: arguments[0]
    return note

note_one, note_two, note_three = noting("one"), noting("two"), noting("three")

@sweep
def one(task, x):
    x[task.b] = note_one(1.0)

@sweep
def two(task, x):
    x[task.b] = note_two(2.0)

@sweep
def three(task, x):
    x[task.b] = note_three(3.0)
"""

SCRIPT = """
import numpy as np, sys
import compiled_here as module
from flowsim.backend.cpu.precompile import compile_ahead
from flowsim.backend.cpu.compiling import recording

x, active = np.zeros(2), np.array([True, False])
sweeps = module.one, module.two, module.three
with recording() as calls:
    for sweep in sweeps:
        sweep(active, x)
assert x[0] == 0.0
needs = [call.need for call in calls]
compile_ahead(needs)
print([(sweep(active, x), x[0])[1] for sweep in sweeps])
assert x[1] == 0.0
"""


def run(code, **environment):
    """Start a fresh interpreter."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process):
    out, err = process.communicate(timeout=1500)
    assert process.returncode == 0, err
    return out, err


def test_processes_started_together_compile_each_function_once(tmp_path):
    (tmp_path / "compiled_here.py").write_text(MODULE)
    notes = tmp_path / "notes"
    places = {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(tmp_path),
        "NOTES": str(notes),
    }
    together = [run(SCRIPT, **places), run(SCRIPT, **places)]
    errors = []
    for process in together:
        out, err = outcome(process)
        assert out.strip() == "[np.float64(1.0), np.float64(2.0), np.float64(3.0)]"
        errors.append(err)
    assert "".join(errors).count("compiling the solver, once on this machine: 3 functions") == 1
    who = {tuple(line.split()) for line in notes.read_text().splitlines()}
    assert sorted(name for name, _ in who) == ["one", "three", "two"]
    # a process that compiled itself would use other copies of the row loops than all later ones
    assert not {str(process.pid) for process in together} & {pid for _, pid in who}
    before = notes.read_text()
    out, err = outcome(run(SCRIPT, **places))
    assert err == ""
    assert notes.read_text() == before


def test_hanging_compile_process_is_killed_and_first_call_compiles(tmp_path):
    (tmp_path / "compiled_here.py").write_text(MODULE)
    places = {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(tmp_path),
        "NOTES": str(tmp_path / "notes"),
    }
    # it reads nothing, writes nothing, and does not end when its stdin does
    silent = "limit=0.2, command=[sys.executable, '-c', 'import time; time.sleep(9999)']"
    out, err = outcome(run(SCRIPT.replace("(needs)", f"(needs, {silent})"), **places))
    assert out.strip() == "[np.float64(1.0), np.float64(2.0), np.float64(3.0)]"
    assert "one is not compiled after 0.2 s: its first call will do it" in err
    assert "compiled 0 of 3 functions of the solver" in err


FREE_DISK = """
from flowsim import Disk, Grid, Sides, Simulation
disk = Disk(center=(2.0, 2.0), motion="free")
simulation = Simulation(Grid(64, 64, 1 / 16), Sides(), [disk], viscosity=0.01)
simulation.advance_steps(40)
print(simulation.u.tobytes().hex())
"""


@pytest.mark.slow
def test_compiling_process_computes_the_same_as_later_ones(tmp_path):
    places = {"NUMBA_CACHE_DIR": str(tmp_path)}
    cold, err = outcome(run(FREE_DISK, **places))
    assert "compiled the solver in" in err
    assert outcome(run(FREE_DISK, **places)) == (cold, "")


def test_solver_runs_without_a_writable_cache(tmp_path):
    (tmp_path / "compiled_here.py").write_text(MODULE)
    places = {
        "NUMBA_CACHE_DIR": "/proc/nowhere",
        "PYTHONPATH": str(tmp_path),
        "NOTES": str(tmp_path / "notes"),
    }
    out, _ = outcome(run(SCRIPT, **places, TMPDIR=str(tmp_path)))
    assert out.strip() == "[np.float64(1.0), np.float64(2.0), np.float64(3.0)]"
    assert not list(tmp_path.glob("flowsim-*"))  # the temporary cache was removed with the process


def test_damaged_cache_entry_is_compiled_again(tmp_path):
    (tmp_path / "compiled_here.py").write_text(MODULE)
    notes = tmp_path / "notes"
    places = {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(tmp_path),
        "NOTES": str(notes),
    }
    outcome(run(SCRIPT, **places))
    (file,) = (tmp_path / "cache").glob("**/two-*.object")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    notes.unlink()
    out, _ = outcome(run(SCRIPT, **places))
    assert out.strip() == "[np.float64(1.0), np.float64(2.0), np.float64(3.0)]"
    assert {line.split()[0] for line in notes.read_text().splitlines()} == {"two"}


FLOWS = """
import os, threading
from flowsim import Disk, Grid, Sides, Simulation

def flows(threads):
    disk = Disk(center=(1.0, 1.0))
    simulation = Simulation(Grid(16, 16, 0.125), bodies=[disk], viscosity=0.01, batch=3, threads=threads)
    simulation.advance_steps(2)
    return simulation.u.tobytes()
"""


EVERY_KIND = """
from flowsim import Grid, Sides, Simulation
from flowsim.bodies.swimmers import carangiform
for bodies in ([], [carangiform(center=(2.0, 1.0))]):
    sides = Sides("inflow", "outflow", "no_slip", "no_slip")
    simulation = Simulation(Grid(64, 32, 1 / 16), sides, bodies, viscosity=0.05)
    simulation.advance_steps(2)
    assert not simulation.diverged.any()
"""


def test_process_runs_cached_functions():
    outcome(run(EVERY_KIND))


def test_one_thread_starts_no_thread_pool():
    out, _ = outcome(run(FLOWS + "flows(1); print(threading.active_count())"))
    assert out.strip() == "1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_process_computes_the_same_with_its_own_threads():
    code = """
expected = flows(3)
child = os.fork()
if child == 0:
    os._exit(0 if flows(3) == expected == flows(1) else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    outcome(run(FLOWS + code))


@pytest.mark.parametrize("name", ["flux_between_rows", "flux_along_row", "_advance_row"])
def test_row_loops_of_the_prediction_are_vectorized(name):
    """When compiled as a part of the sweep, one of them was not vectorized, and the prediction took twice as long."""
    functions = re.split("^define ", predicted(), flags=re.MULTILINE)
    bodies = [function for function in functions if name in function.partition("\n")[0]]
    assert bodies, "it is not compiled by itself"
    assert all(re.search(r"f(add|mul|sub)[a-z ]* <\d+ x float>", body) for body in bodies)


@functools.cache
def predicted() -> str:
    """Return the LLVM code of the prediction, compiled without the cache, which does not keep it."""
    u, p = np.zeros((1, 20, 36), np.float32), np.zeros((1, 16, 32), np.float32)
    under_bodies = np.zeros((2, 1, 0, 0), np.float32)
    fields = Fields(u, u, u, u, u, u, p, p, under_bodies, under_bodies)
    steps, flags = np.zeros(1, np.int64), np.zeros((FLAGS, 1), np.bool_)
    clock = Clock(np.ones((1, CLOCK_COLUMNS)), steps, flags)
    nothing = np.zeros(2)
    box = Box(0.1, np.zeros(4, np.int64), np.zeros((1, 4, 2, 36), np.float32), nothing, nothing)
    bodies = np.zeros((0, PLACE_COLUMNS)), np.zeros((0, 16, ROW_SUMS))
    room = Room(np.zeros((1, 5, 48), np.float32), *bodies)
    predict = njit(**OPTIONS)(flow.predict.__wrapped__)
    predict(Task(0, 0, 1, 0), fields, clock, box, room)
    (text,) = predict.inspect_llvm().values()
    return text
