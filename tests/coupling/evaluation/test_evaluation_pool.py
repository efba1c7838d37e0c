"""The number of processes does not change an evaluation; processes end with it, and the death of one is an error."""

import os
import pickle
import subprocess
import sys
from multiprocessing import active_children
from types import FunctionType, ModuleType

import numpy as np
import pytest

from cases.baselines import FunctionController, RandomController
from coupling.errors import RunError
from coupling.evaluation.pool import AT_ONCE_OF_FLOWS, EvaluationPool

ENV = "flowsim/DCylinderWake-v0"
OPTIONS = {"preset": "sketch", "start": "impulsive", "episode_actions": 5}
EPISODES = 2 * AT_ONCE_OF_FLOWS + 3


class Failing:
    """A controller that fails in other processes."""

    def __init__(self):
        self._here = os.getpid()

    def reset(self, n):
        pass

    def __call__(self, observations):
        if os.getpid() != self._here:
            raise ArithmeticError("no idea")
        return np.zeros((len(observations), 3), np.float32)


def nothing(observations):
    return np.zeros((len(observations), 3), np.float32)


def play(pool, controller, *progress):
    return pool.play(controller, EPISODES, 3, *progress)


def test_results_do_not_depend_on_the_number_of_processes():
    controller = RandomController(3, seed=1)
    with EvaluationPool(ENV, OPTIONS, processes=1) as pool:
        alone = play(pool, controller)
        assert not active_children()
    heard = []
    with EvaluationPool(ENV, OPTIONS, processes=2, patience=0.0) as pool:
        together = play(pool, controller, lambda over, actions: heard.append((over, actions)))
        assert len(active_children()) == 1
        again = play(pool, controller)
    assert not active_children()
    assert len(set(alone.lengths)) > 1
    for one, two, three in zip(alone, together, again, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
    assert heard[-1][0] == EPISODES
    assert [over for over, _ in heard] == sorted(over for over, _ in heard)


def test_function_that_other_processes_cannot_copy_is_played_here(monkeypatch):
    notebook = ModuleType("__main__")  # has no file that another process could import
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    notebook.nothing = FunctionType(nothing.__code__, vars(notebook) | {"np": np})
    pickle.dumps(notebook.nothing)  # by its name, which only this process knows
    with EvaluationPool(ENV, OPTIONS, processes=2, patience=0.0) as pool:
        expected = play(pool, FunctionController(nothing)).returns
        for function in (lambda seen: nothing(seen), notebook.nothing):
            found = play(pool, FunctionController(function))
            np.testing.assert_array_equal(found.returns, expected)


def test_script_without_a_guard_runs_once_and_its_task_is_known_to_all_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"""
import gymnasium
from cases.baselines import ZeroController
from coupling.evaluation.pool import EvaluationPool

print("the script runs", flush=True)
entry = "cases.d_cylinder_wake.env:DCylinderWake"
names = {{"entry_point": f"{{entry}}Env", "vector_entry_point": f"{{entry}}VectorEnv"}}
gymnasium.register("OfTheScript-v0", **names)
with EvaluationPool("OfTheScript-v0", {OPTIONS}, processes=2, patience=0.0) as pool:
    print(len(pool.play(ZeroController(3), {EPISODES}, 3).returns), len(pool._others))
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the script runs", f"{EPISODES} 1"]


def test_each_part_draws_its_own_random_actions():
    controller, states = RandomController(3, seed=1), np.zeros((2, 14), np.float32)
    drawn = []
    for part in (0, 1, 0):
        controller.reseed(part)
        drawn.append(controller(states))
    np.testing.assert_array_equal(drawn[0], drawn[2])
    assert not np.isin(drawn[0], drawn[1]).any()


def test_failure_in_another_process_is_reported_and_no_process_is_left():
    with (
        pytest.raises(RunError, match="episode of the evaluation failed: ArithmeticError: no idea"),
        EvaluationPool(ENV, OPTIONS, processes=2, patience=0.0) as pool,
    ):
        play(pool, Failing())
    assert not active_children()


def test_death_of_a_process_is_reported():
    def kill(over, actions):
        for other in active_children():
            other.kill()

    with (
        pytest.raises(RunError, match=r"a process of the evaluation died \(exit code -9\)"),
        EvaluationPool(ENV, OPTIONS, processes=2, patience=0.0) as pool,
    ):
        play(pool, RandomController(3, seed=1), kill)
    assert not active_children()


def test_other_tasks_run_in_this_process():
    with EvaluationPool("flowsim/LinearQuadratic-v0", {"dimension": 1}, patience=0.0) as pool:
        pool.play(RandomController(1, seed=1), 30, 3)
        assert not active_children()
