"""`flowsim train env=module:ID`: a module of the current folder, and what it may do wrong."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import pytest

from coupling.errors import ConfigError, RunError
from coupling.launch.failure_window import SAME, Alike
from coupling.launch.launcher import Death, Mending
from coupling.worker.environments import describe_task

SCRIPT = Path(sys.executable).with_name("flowsim")
PAGE = (Path(__file__).parents[3] / "docs" / "environments.md").read_text(encoding="utf-8")
REACH = re.search(
    r"```python\n(import gymnasium as gym\nimport numpy as np\n\n\nclass Reach.*?)```",
    PAGE,
    re.DOTALL,
)[1]
SMALL = (
    "workers.processes=1",
    "workers.agents=2",
    "run.name=run",
    "run.steps=200",
    "agent.learning_starts=100",
    "agent.buffer_size=1000",
)


@pytest.fixture
def train(tmp_path):
    """Write a module, run the installed command in its folder, and return how it ended."""

    def _train(code, *words):
        (tmp_path / "reach.py").write_text(code)
        command = [str(SCRIPT), "train", *words]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
        )

    return _train


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module into the current folder, which Python does not look into by itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "path", [place for place in sys.path if place not in ("", str(tmp_path))]
    )
    registered = dict(gymnasium.registry)
    yield lambda code: (tmp_path / "reach.py").write_text(code)
    sys.modules.pop("reach", None)
    gymnasium.registry.clear()
    gymnasium.registry.update(registered)


def changed(before, after):
    assert before in REACH
    return REACH.replace(before, after)


def test_folders_with_the_names_of_our_packages_do_not_hide_them(train, tmp_path):
    for name in ("flowsim", "rl_agent", "coupling", "cases"):
        (tmp_path / name).mkdir()  # where a clone lies, there is a folder named flowsim
    code = REACH + "\nfrom flowsim import Simulation\n"
    done = train(code, "env=reach:Reach-v0", *SMALL)
    assert done.returncode == 0, done.stderr


def test_the_documented_module_in_the_current_folder_is_found_by_learner_and_workers(
    train, tmp_path
):
    done = train(REACH, "env=reach:Reach-v0", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "finished: 200 environment steps from 2 distinct agents" in done.stderr.replace(
        "\n", " "
    )
    assert (tmp_path / "runs" / "run" / "checkpoint.npz").exists()


NO_NUMBER = changed("float(reward)", "np.nan")
NO_START = changed("self.x.astype(np.float32), {}\n\n", "np.full(2, np.nan, np.float32), {}\n\n")
UNREGISTERED = REACH + "\n\nclass Other(Reach):\n    pass\n"
WIDER = changed("self.x.astype(np.float32), {}\n\n", "np.zeros(3, np.float32), {}\n\n")
WIDER_LATER = changed(
    "return self.x.astype(np.float32), float", "return np.zeros(3, np.float32), float"
)
RESET_RAISES = changed("super().reset(seed=seed)", "return 1 / 0")
STEP_RAISES = changed("reward = -self.x", "reward = -self.y")


@pytest.mark.parametrize(
    ("code", "env", "sentence"),
    [
        (REACH, "reech:Reach-v0", "there is no module 'reech', neither in the current folder"),
        (REACH, "reach:Rech-v0", "no such environment; did you mean 'reach:Reach-v0'?"),
        (REACH, "reach:Reach", "no such environment; did you mean 'reach:Reach-v0'?"),
        (
            UNREGISTERED,
            "reach:Other",
            "call gymnasium.register('Other-v0', 'reach:Other') in reach",
        ),
        (WIDER, "reach:Reach-v0", "reset() returned an observation of shape (3,), but its obs"),
        (
            WIDER_LATER,
            "reach:Reach-v0",
            "step() returned an observation of shape (3,), but its obs",
        ),
        (
            "import nowhere_to_be_had\n",
            "reach:Reach-v0",
            "reach needs the module 'nowhere_to_be_had'",
        ),
        (
            "def broken(:\n",
            "reach:Reach-v0",
            "cannot be imported: SyntaxError: invalid syntax (reach.py, line 1)",
        ),
        (
            RESET_RAISES,
            "reach:Reach-v0",
            "reset() raised ZeroDivisionError: division by zero (reach.py, line 10",
        ),
        (
            STEP_RAISES,
            "reach:Reach-v0",
            "'Reach' object has no attribute 'y' (reach.py, line 16, in step)",
        ),
        (
            NO_NUMBER,
            "reach:Reach-v0",
            "the reward of its step() is not finite: nan (reach.py, line 14, in step)",
        ),
        (
            NO_START,
            "reach:Reach-v0",
            "observation of its reset() is not finite: number 0 of 2 is nan (reach.py, line 9, in reset)",
        ),
    ],
)
def test_broken_environment_is_refused_before_the_run_begins(module, code, env, sentence):
    module(code)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing else is printed before the error
        with pytest.raises(ConfigError, match=r"^[^\n]*$") as error:
            describe_task(env, {})
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("task.py", "task is a folder, not a module; task.py is in it: run the command there (cd task)"),
        ("other.py", "task is a folder, not a module; name one of its files, such as task.FILE"),
    ],
)  # fmt: skip
def test_folder_named_like_the_module_is_reported(tmp_path, file, sentence):
    """`flowsim init task` leaves such a folder, and the task may then be named from outside of it."""
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / file).write_text(REACH)
    done = subprocess.run(
        [SCRIPT, "train", "env=task:Reach-v0"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"flowsim: env = 'task:Reach-v0': {sentence}"


COUNTED = REACH.replace("    def reset", "    steps = 0\n\n    def reset").replace(
    "self.x = self.x", "self.steps += 1\n        self.x = self.x"
)
LATE_NUMBER = COUNTED.replace("float(reward)", "np.nan if self.steps > 3 else float(reward)")


def test_repeated_identical_failure_ends_the_run(train):
    done = train(
        LATE_NUMBER, "env=reach:Reach-v0", *SMALL, "workers.restarts=1000", "run.steps=100000"
    )
    assert done.returncode == 1, done.stderr
    told = " ".join(done.stderr.split())
    assert re.search(
        r"failed 3 times in the same way, and no episode ended without a failure in between: "
        r"the reward of its step\(\) is not",
        told,
    )
    assert told.count("is not finite") == 2  # when it happened first, and when the run ends
    assert "Traceback" not in told


def test_repeatedly_failing_later_reset_ends_the_run(train):
    code = REACH.replace("    def reset", "    begun = 0\n\n    def reset")
    code = code.replace(
        "super().reset(seed=seed)", "self.begun += 1\n        self.x = 1 // max(0, 3 - Reach.begun)"
    )
    code = code.replace("self.begun", "Reach.begun")
    done = train(code, "env=reach:Reach-v0", *SMALL, "workers.restarts=1000", "run.steps=100000")
    assert done.returncode == 1, done.stderr
    assert "in the same way" in done.stderr
    assert "(reach.py, line 13, in reset)" in done.stderr
    assert "Traceback" not in done.stderr


def test_consecutive_failures_that_differ_only_in_numbers_are_alike():
    alike = Alike()
    assert [alike.note(f"KeyError: {n}") for n in range(SAME)] == [False] * (SAME - 1) + [True]
    assert not alike.note("another")
    assert not any(alike.note("flaky", fresh=True) for _ in range(3 * SAME))


def test_workers_whose_environments_cannot_be_reset_are_not_restarted_endlessly():
    mending = Mending(1, allowed=1000)
    hopeless = Death(
        0,
        "exit code 1",
        "  | worker 0: its environments cannot be reset: ValueError: 3 (a.py, line 1, in reset)",
    )
    for _ in range(SAME - 1):
        mending.restart_at(hopeless)
    with pytest.raises(
        RunError, match=r"in the same way: its environments cannot be reset: ValueError: 3 \(a.py"
    ):
        mending.restart_at(hopeless)
    other = Mending(1, allowed=1000)
    for _ in range(3 * SAME):
        other.restart_at(Death(0, "exit code 1", "  | out of memory"))
