"""The external task: its spaces are known, and stepping it in Python is refused."""

import pytest
from shell import complaint

from coupling.errors import ConfigError
from coupling.settings.external import EXTERNAL
from coupling.worker.environments import describe_task, make_vector

OPTIONS = {"observation_size": 4, "action_low": [-1.0, 0.0], "action_high": [1.0, 0.5]}


def test_options_define_the_spaces():
    task = describe_task(EXTERNAL, OPTIONS)
    assert task.observation_space.shape == (4,)
    assert task.action_bounds == ([-1.0, 0.0], [1.0, 0.5])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"observation_size": 0}, "observation_size = 0: input should be greater"),
        ({"observation_size": 2.5}, "observation_size = 2.5: input should be a valid integer"),
        ({"action_low": []}, "action_low = "),
        (
            {"action_low": [-1.0, float("inf")]},
            "action_low.1 = inf: input should be a finite number",
        ),
        ({"action_low": [-1.0, 0.5]}, "must be below action_high"),
        ({"action_low": [-1.0]}, "number by number"),
        (
            {"grid": 3},
            "unknown key 'grid': allowed are observation_size, action_low, action_high, episode_steps",
        ),
    ],
)
def test_bad_options_are_refused(changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        describe_task(EXTERNAL, OPTIONS | changes)


def test_stepping_in_python_is_refused():
    with pytest.raises(ConfigError, match="is outside Python"):
        make_vector(EXTERNAL, OPTIONS, 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "flowsim serve"),
        (["workers.launcher=none", "run.evaluate_episodes=2"], "run.evaluate_episodes must be 0"),
    ],
)
def test_stepping_in_python_is_refused_before_a_run_is_created(shell, words, sentence):
    done = shell.run("train", shell.preset(env=EXTERNAL, env_options=OPTIONS), *words)
    assert done.returncode == 2
    assert sentence in complaint(done.stderr)
    assert not (shell.folder / "runs").exists()
