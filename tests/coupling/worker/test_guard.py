"""The guard around environments: an error costs its episode, or gives a one-line message."""

import os
import re
import signal

import numpy as np
import pytest
from gymnasium import spaces
from wild import BOX, NESTED_ACTIONS, NESTED_SEEN, SpoiledBatch, TellingBatch, Wild

from cases.baselines import ZeroController
from coupling.errors import ConfigError, RunError
from coupling.evaluation.evaluate import evaluate
from coupling.film.task_film import film_task
from coupling.signals import interrupting
from coupling.worker.environments import (
    describe_task,
    final_observations,
    make_single,
    make_vector,
)
from coupling.worker.guard import (
    FailureError,
    GuardedBatch,
    diverged_of,
    failures_of,
    reset_failures_of,
)
from coupling.worker.spaces import flat_actions, flat_observations

STAY = np.zeros((2, 1), np.float32)


@pytest.fixture(autouse=True)
def _new(monkeypatch):
    monkeypatch.setattr(Wild, "gone_wrong", False)


def wild(what, at=2, count=2):
    return make_vector("wild:Wild-v0", {"what": what, "at": at}, count)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("raise", r"its step\(\) raised RuntimeError: told to \(wild.py, line \d+, in step\)"),
        ("exit", r"its step\(\) raised SystemExit: 3 \(wild.py, line \d+, in step\)"),
        ("panic", r"its step\(\) raised Panic: overflow \(wild.py, line \d+, in step\)"),
        ("four", r"its step\(\) returned 4 values, but must return 5 values: observation, reward, .*"),
        ("reward nan", r"the reward of its step\(\) is not finite: nan \(wild.py, .*"),
        ("reward -1e39", r"the reward of its step\(\) is beyond the 1e\+18 .*: -1e\+39 \(wild.py.*"),
        ("reward 1e19", r"the reward of its step\(\) is beyond the 1e\+18 .*"),
        ("two rewards", r"the reward of its step\(\) is an array of shape \(2,\), but must be one .*"),
        ("no reward", r"the reward of its step\(\) is NoneType, but must be one number .*"),
        ("observation inf", r"the observation of its step\(\) is not finite: number 1 of 2 is inf .*"),
        ("observation 1e39", r"the observation of its step\(\) is beyond .* number 1 of 2 is 1e\+39 .*"),
        ("observation -1e38", r"the observation of its step\(\) is beyond .* number 1 of 2 is -1e\+38 .*"),
        ("other shape", r"its step\(\) returned an observation of shape \(3,\), but its .* has \(2,\) .*"),
        ("no numbers", r"its step\(\) returned an observation of dict, but it must be numbers of shape .*"),
        ("complex numbers", r"its step\(\) returned an observation of complex128, but it must be numbers .*"),
        ("no flag", r"terminated of its step\(\) is None, but must be True or False \(wild.py, .*"),
        ("a word as flag", r"truncated of its step\(\) is 'no', but must be True or False .*"),
        ("two flags", r"terminated of its step\(\) is an array of shape \(2,\), but must be True .*"),
    ],
)  # fmt: skip
def test_failed_step_costs_only_its_episode(what, sentence):
    vector = wild(what)
    vector.reset(seed=[0, 1])
    vector.step(STAY)
    observations, rewards, terminated, truncated, infos = vector.step(STAY)
    first, second = failures_of(infos, 2)
    np.testing.assert_array_equal(rewards, [0.0, 1.0])
    np.testing.assert_array_equal(terminated | truncated, [True, False])
    assert re.fullmatch(sentence, first), first
    assert not second
    np.testing.assert_array_equal(final_observations(infos, truncated), [[1.0, 1.0]])
    np.testing.assert_array_equal(observations, [[0.0, 1.0], [2.0, 1.0]])  # a new environment
    for _ in range(17):
        *_, terminated, truncated, infos = vector.step(STAY)
        assert not any(failures_of(infos, 2))
        assert not (terminated | truncated).any()


def test_step_with_four_values_is_reported_also_within_wrappers():
    vector = make_vector("wild:WildLimited-v0", {"what": "four"}, 1)
    vector.reset(seed=0)
    vector.step(STAY[:1])
    *_, infos = vector.step(STAY[:1])
    (sentence,) = failures_of(infos, 1)
    due = r"5 values, observation, reward, terminated, truncated, info: .*got 4.*"
    assert re.fullmatch(r"its step\(\) must return " + due, sentence), sentence


@pytest.mark.parametrize(
    ("space", "seen", "sentence"),
    [
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(3)), {"a": 1}, r"Dict\(.*: KeyError: 'b'"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))), (1,), r"Tuple\(.*: ValueError: zip.*"),
        (spaces.Discrete(3), 3, r"Discrete\(3\): ValueError: 3 is not in Discrete\(3\)"),
        (spaces.Discrete(3), -1, r"Discrete\(3\): ValueError: -1 is not in .*"),
        (spaces.Discrete(3, start=-4), 0, r"Discrete\(3, start=-4\): ValueError: 0 is not in .*"),
        (spaces.MultiDiscrete([3, 2]), [2, 2], r"MultiDiscrete.*: ValueError: .* is not in .*"),
        (spaces.MultiDiscrete([3, 2]), 1, r"MultiDiscrete.*: ValueError: 1 is not in .*"),
    ],
)  # fmt: skip
def test_observation_outside_its_space_is_reported_with_the_space(space, seen, sentence):
    begun = r"^env = 'wild:Spaces-v0': its reset\(\) returned an observation that is not of its observation_space "
    with pytest.raises(ConfigError, match=begun + sentence):
        describe_task("wild:Spaces-v0", {"observation_space": space, "seen": seen})


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_invalid_space_is_refused(name):
    with pytest.raises(ConfigError, match=f"its {name} is .*, but must be a Gymnasium space"):
        describe_task("wild:Spaces-v0", {name: [1, 2]})


def test_each_environment_of_a_batch_is_checked_separately():
    batch = GuardedBatch(SpoiledBatch)
    batch.reset(seed=0)
    observations, rewards, terminated, _, infos = batch.step(np.zeros((6, 1), np.float32))
    sentences = [
        "",
        r"the observation of its step\(\) is not finite: number 0 of 2 is nan .*",
        r"the observation of its step\(\) is beyond .* number 1 of 2 is -1e\+39 .*",
        r"the reward of its step\(\) is not finite: inf .*",
        r"the observation of its step\(\) is not finite: number 0 of 2 is nan .*",
        "",
    ]
    for reason, sentence in zip(failures_of(infos, 6), sentences, strict=True):
        assert re.fullmatch(sentence, reason), reason
    np.testing.assert_array_equal(rewards, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(terminated, [False] * 5 + [True])
    kept = np.zeros((6, 2))  # those that failed have the observation before
    kept[[0, 5]] = 1.0
    np.testing.assert_array_equal(observations, kept)


def test_reward_may_be_an_array_of_one_number():
    vector = wild("reward of shape (1,)")
    vector.reset(seed=0)
    _, rewards, *_, infos = vector.step(STAY)
    assert rewards.tolist() == [1.0, 1.0]
    assert not any(failures_of(infos, 2))


def test_numpy_booleans_end_an_episode():
    vector = wild("flags of numpy", count=1)
    vector.reset(seed=0)
    ends = [bool(vector.step(STAY[:1])[3][0]) for _ in range(20)]
    assert ends == [False] * 19 + [True]


def test_observations_in_a_reused_buffer_are_copied():
    vector = wild("", count=1)
    vector.reset(seed=0)
    for _ in range(20):
        observations, _, terminated, truncated, infos = vector.step(STAY[:1])
    assert truncated.all()
    assert not terminated.any()
    np.testing.assert_array_equal(final_observations(infos, truncated), [[20.0, 1.0]])
    np.testing.assert_array_equal(observations, [[0.0, 2.0]])


@pytest.mark.parametrize("what", ["reset raises", "reset nan", "reset 1e39"])
def test_failed_later_reset_costs_no_episode_of_the_others(what):
    vector = wild(what)
    vector.reset(seed=[0, 1])
    for _ in range(20):
        observations, _, _, truncated, infos = vector.step(STAY)
    assert truncated.all()
    assert not any(failures_of(infos, 2))
    first, second = reset_failures_of(infos, 2)
    assert first.startswith(("its reset() raised", "the observation of its reset()"))
    assert not second
    np.testing.assert_array_equal(final_observations(infos, truncated), [[20.0, 1.0], [20.0, 1.0]])
    np.testing.assert_array_equal(observations, [[0.0, 1.0], [0.0, 2.0]])


def test_environment_that_can_never_be_reset_is_refused():
    with pytest.raises(FailureError, match=r"the observation of its reset\(\) is not finite"):
        wild("every reset").reset(seed=0)
    with pytest.raises(ConfigError, match=r"env = 'wild:Wild-v0': the observation of its reset"):
        describe_task("wild:Wild-v0", {"what": "every reset"})


@pytest.mark.parametrize("make", [make_single, lambda *task: make_vector(*task, 1), describe_task])
@pytest.mark.parametrize(
    ("what", "told"), [("exit when made", "SystemExit: 3"), ("panic when made", "Panic: overflow")]
)
def test_environment_that_exits_when_made_is_refused(make, what, told):
    with pytest.raises(ConfigError, match=rf"cannot be made: {told} \(wild.py, line"):
        make("wild:Wild-v0", {"what": what})


def test_module_that_exits_on_import_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for kind in ("SystemExit", "GeneratorExit"):
        (tmp_path / f"raises_{kind}.py").write_text(
            f"import os\nos.chdir('/')\nraise {kind}('no licence')\n"
        )
        told = rf"raises_{kind} cannot be imported: {kind}: no licence"
        with pytest.raises(ConfigError, match=told):
            describe_task(f"raises_{kind}:Task-v0", {})
        assert os.getcwd() == str(tmp_path)


def test_chdir_of_an_environment_affects_only_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vector = wild("chdir")
    assert os.getcwd() == str(tmp_path)
    vector.reset(seed=0)
    vector.step(STAY)
    assert os.getcwd() == str(tmp_path)
    for environment in vector.envs:
        assert set(environment.unwrapped.folders) == {str(tmp_path / "elsewhere")}


@pytest.mark.parametrize("what", ["close raises", "close exits", "close panics"])
def test_errors_on_close_are_ignored(what):
    vector, single = wild(what), make_single("wild:Wild-v0", {"what": what})
    vector.close()
    single.close()
    assert describe_task("wild:Wild-v0", {"what": what}).episode_steps is None


def test_termination_signal_is_not_taken_for_an_exit_of_the_environment(monkeypatch):
    def told(self, action):
        os.kill(os.getpid(), signal.SIGTERM)
        return super(Wild, self).step(action)

    vector = wild("")
    vector.reset(seed=0)
    monkeypatch.setattr(Wild, "step", told)
    with interrupting(), pytest.raises(KeyboardInterrupt):
        vector.step(STAY)


# --- evaluations and films ----------------------------------------------------------------------------------


def test_evaluation_leaves_out_failed_episodes():
    found = evaluate("wild:Unlucky-v0", {}, ZeroController(1), episodes=60, seed=1)
    numbers = found.summary()
    failed = np.array([bool(reason) for reason in found.failures])
    assert 0 < failed.sum() < 30  # 11 are to be expected
    assert numbers["failed"] == failed.sum()
    assert numbers["episodes"] == 60 - failed.sum()
    assert (numbers["mean_return"], numbers["mean_length"]) == (10.0, 10.0)
    assert "did not converge (wild.py, line" in numbers["failure"]


def test_evaluation_with_only_failed_episodes_raises():
    options = {"probability": 1.0}
    told = r"'wild:Unlucky-v0' cannot be evaluated: all 3 episodes failed; the last failure: its step\(\)"
    with pytest.raises(RunError, match=told):
        evaluate("wild:Unlucky-v0", options, ZeroController(1), episodes=3, seed=1)
    with pytest.raises(RunError, match=r"cannot be evaluated: the observation of its reset\(\)"):
        evaluate("wild:Wild-v0", {"what": "every reset"}, ZeroController(1), episodes=3, seed=1)


def test_episode_whose_first_reset_raises_has_failed():
    options = {"what": "reset raises", "at": 0}
    found = evaluate("wild:Wild-v0", options, ZeroController(1), episodes=3, seed=1)
    assert [bool(reason) for reason in found.failures] == [True, False, False]
    assert found.summary()["episodes"] == 2


def test_evaluation_of_an_endless_task_is_cut():
    numbers = evaluate(
        "wild:Endless-v0", {}, ZeroController(1), episodes=2, seed=1, max_actions=30
    ).summary()
    assert (numbers["mean_length"], numbers["cut"], numbers["cut_at"]) == (30.0, 2, 30)
    assert numbers["survival"] == 1.0
    numbers = evaluate(
        "wild:Unlucky-v0", {"probability": 0.0}, ZeroController(1), episodes=2, seed=1
    ).summary()
    assert (numbers["mean_length"], numbers["cut"]) == (10.0, 0)


def test_time_limit_of_the_task_bounds_its_evaluation():
    options = {"max_episode_steps": 7}
    assert describe_task("wild:Endless-v0", options).episode_steps == 7
    numbers = evaluate("wild:Endless-v0", options, ZeroController(1), episodes=2, seed=1).summary()
    assert (numbers["mean_length"], numbers["cut"]) == (7.0, 0)


def film(what, at, folder, starts=2):
    return film_task(
        {"zero": ZeroController(1)}, [folder / "end.png"], env="wild:Wild-v0",
        env_options={"what": what, "at": at}, seeds=range(starts), actions=5,
    )  # fmt: skip


@pytest.mark.parametrize("what", ["raise", "exit", "reward nan", "observation 1e38"])
def test_failed_step_ends_its_panel_of_a_film(what, tmp_path):
    one, other = film(what, 2, tmp_path)
    assert (one.how, one.actions, one.episode_return) == ("failed", 1, 1.0)
    assert (other.how, other.actions) == ("filmed", 5)


def test_film_with_only_failed_panels_or_failing_render_raises(tmp_path):
    with pytest.raises(RunError, match=r"failed in each panel: its step\(\) raised SystemExit: 3"):
        film("exit", 2, tmp_path, starts=1)
    with pytest.raises(RunError, match=r"its render\(\) raised SystemExit: 3 \(wild.py, line"):
        film("render exits", 2, tmp_path)
    assert not list(tmp_path.iterdir())


# --- spaces ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "values"),
    [
        (spaces.Box(0, 1, (1,), np.int8), range(2)),
        (spaces.Box(-5, 5, (1,), np.int64), range(-5, 6)),
        (spaces.MultiDiscrete([3], start=[4]), range(4, 7)),
        (spaces.MultiBinary(1), range(2)),
        (spaces.Tuple([spaces.Discrete(4, start=2)]), range(2, 6)),
    ],
)
def test_integer_actions_are_rounded_and_equally_reachable(space, values):
    box, decode = flat_actions(space)
    count = 100 * len(values)
    points = np.linspace(box.low, box.high, count, endpoint=False) + 0.5 / 100
    actions = [decode(point.astype(np.float32)) for point in points]
    assert all(space.contains(action) for action in actions)
    reached = [int(np.ravel(action)[0]) for action in actions]
    assert [reached.count(value) for value in values] == [100] * len(values)
    assert int(np.ravel(decode(box.high + 1.0))[0]) == values[-1]


def test_nested_actions_are_flattened_and_restored():
    box, decode = flat_actions(NESTED_ACTIONS)
    assert box.shape == (1 + 4 + 3 + 2,)
    box.seed(0)
    for _ in range(200):
        assert NESTED_ACTIONS.contains(decode(box.sample()))
    numbers = np.array([-2.6, 0.1, 0.2, 0.3, 0.4, 2.4, 0.6, 2.5001, 0.4, 1.4])
    action = decode(numbers)
    np.testing.assert_array_equal(action["count"], [-3])
    np.testing.assert_allclose(action["force"], [[0.1, 0.2], [0.3, 0.4]], rtol=1e-6)
    assert action["gears"][0] == 2
    np.testing.assert_array_equal(action["gears"][1], [1, 3])
    np.testing.assert_array_equal(action["switches"], [0, 1])


def test_flat_spaces_are_unchanged():
    assert flat_observations(spaces.Box(-1.0, 1.0, (3,))) is None
    assert flat_actions(spaces.Box(-1.0, 1.0, (3,))) is None


@pytest.mark.parametrize("env", ["wild:Nested-v0", "wild:NestedBatch-v0"])
def test_environment_with_nested_spaces_is_described_and_stepped(env):
    task = describe_task(env, {})
    assert task.observation_space.shape == (6 + 3 + 2,)
    assert task.action_space.shape == (10,)
    seen, acted = task.notes
    assert "are flattened to 11 numbers (gymnasium.wrappers.FlattenObservation)" in seen
    assert "are 10 numbers, whole ones rounded to the nearest" in acted
    vector = make_vector(env, {}, 3)
    assert vector.reset(seed=0)[0].shape == (3, 11)
    vector.single_action_space.seed(0)
    actions = np.stack([vector.single_action_space.sample() for _ in range(3)])
    observations, rewards, _, truncated, infos = vector.step(actions)
    assert not any(failures_of(infos, 3))
    np.testing.assert_allclose(rewards, actions[:, 1:5].sum(axis=1), rtol=1e-5)
    assert observations.dtype == np.float32
    assert ((observations[:, 6:9].sum(axis=1) == 1) & (observations[:, :6] >= 0).all(axis=1)).all()
    if truncated.any():
        (last,) = final_observations(infos, truncated)
        assert last[6:9].sum() == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"action_space": spaces.Box(-np.inf, np.inf, (2,))},
            r"no finite bounds; wrap it to set some: gymnasium.wrappers.TransformAction\(env, .*\(2,\)\)\)",
        ),
        (
            {"action_space": spaces.Sequence(spaces.Discrete(2))},
            r"no fixed size; wrap it: gymnasium.wrappers.TransformAction",
        ),
        (
            {"action_space": spaces.Box(0, 2**30, (1,), np.int64)},
            r"more whole numbers than single precision can represent; .*TransformAction",
        ),
        (
            {"action_space": spaces.Box(-3e38, 3e38, (2,))},
            r"bounds that single precision, .*, cannot represent; rescale .*RescaleAction",
        ),
        (
            {"action_space": spaces.Box(-1e300, 1e300, (2,), np.float64)},
            r"bounds that single precision, .*, cannot represent; rescale .*RescaleAction",
        ),
        (
            {"observation_space": spaces.Dict(x=spaces.Sequence(spaces.Discrete(2)))},
            r"no fixed size; wrap it: gymnasium.wrappers.TransformObservation",
        ),
    ],
)
def test_unflattenable_space_is_refused_with_a_suggested_wrapper(options, sentence):
    with pytest.raises(ConfigError, match=r"^env = 'wild:Spaces-v0': its .* space .*" + sentence):
        describe_task("wild:Spaces-v0", options)


@pytest.mark.parametrize("actions", [spaces.Discrete(9), BOX])
def test_task_that_wraps_what_cannot_be_flattened_is_described_as_wrapped(actions):
    options = {"observation_space": spaces.Sequence(spaces.Discrete(2)), "action_space": actions}
    task = describe_task("wild:Wrapped-v0", options)
    assert (task.observation_space.shape, task.action_space) == ((2,), actions)
    assert not task.notes


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_half_precision_observation_that_is_not_finite_is_reported(number):
    space = spaces.Box(-np.inf, np.inf, (2,), np.float16)
    options = {"observation_space": space, "seen": np.array([0.0, number], np.float16)}
    with pytest.raises(ConfigError, match=r"its reset\(\) is not finite: number 1 of 2"):
        describe_task("wild:Spaces-v0", options)
    described = describe_task("wild:Spaces-v0", options | {"seen": np.zeros(2, np.float16)})
    assert described.observation_space.shape == (2,)


def test_multi_agent_environment_with_nested_spaces(monkeypatch):
    from meadow import Meadow

    from coupling.worker.multi_agent import MultiAgentEnv

    class Nested(Meadow):
        def observation_space(self, agent):
            return NESTED_SEEN

        def action_space(self, agent):
            return NESTED_ACTIONS

        def reset(self, seed=None, options=None):
            NESTED_SEEN.seed(seed)
            self.agents = list(self.possible_agents)
            return {name: NESTED_SEEN.sample() for name in self.agents}, {}

        def step(self, actions):
            assert all(NESTED_ACTIONS.contains(action) for action in actions.values())
            paid = {name: np.ones(1) for name in self.agents}
            no = dict.fromkeys(self.agents, False)
            return {name: NESTED_SEEN.sample() for name in self.agents}, paid, no, no, {}

    env = MultiAgentEnv(Nested, {})
    observations, _ = env.reset(seed=0)
    assert observations.shape == (2, 11)
    assert env.action_space.shape == (2, 10)
    env.action_space.seed(0)
    for _ in range(20):
        observations, reward, *_ = env.step(env.action_space.sample())
        assert reward == 1.0
        assert env.observation_space.contains(observations)


def test_unlearnable_multi_agent_reward_is_reported_with_its_location():
    from meadow import Meadow

    from coupling.worker.multi_agent import MultiAgentEnv

    class Rich(Meadow):
        def step(self, actions):
            seen, paid, *ends = super().step(actions)
            return seen, paid | {"cow_1": 1e39}, *ends

    env = MultiAgentEnv(Rich, {})
    env.reset(seed=0)
    line = Rich.step.__code__.co_firstlineno
    with pytest.raises(FailureError, match=rf"1e\+39 \(test_guard.py, line {line}, in step\)$"):
        env.step(np.zeros((2, 1), np.float32))


class Moody:
    def __bool__(self):
        raise RuntimeError("ask later")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (True, True),
        (np.array([False, True]), True),
        (np.array([False, False]), False),
        (None, False),
        (Moody(), False),
    ],
)
def test_any_divergence_that_an_info_speaks_of_is_read_without_an_error(said, expected):
    environment = make_single("wild:Telling-v0", {"diverged": said})
    environment.reset(seed=0)
    seen, reward, *_, info = environment.step(np.zeros(1, np.float32))
    assert (seen.tolist(), reward) == ([0.0, 0.0], 1.0)
    assert info == ({"diverged": True} if expected else {})


@pytest.mark.parametrize(
    ("infos", "expected"),
    [
        ({}, [False, False]),
        ({"diverged": np.array([False, True])}, [False, True]),
        ({"final_info": {"diverged": np.array([True, False])}}, [True, False]),
        ({"diverged": [True, True, True]}, [False, False]),
        ({"diverged": np.ones((2, 3), bool)}, [False, False]),
        ({"diverged": [Moody(), Moody()]}, [False, False]),
        ({"final_info": np.array([{"diverged": True}, None])}, [False, False]),
        ({"failed": np.array([True, False]), "reset_failed": [1, 0]}, [False, False]),
        ({"final_info": {"failed": [True, True]}}, [False, False]),
    ],
)
def test_infos_of_a_batch_may_have_any_form(infos, expected):
    batch = GuardedBatch(lambda: TellingBatch(infos))
    batch.reset(seed=0)
    *_, told = batch.step(STAY)
    assert diverged_of(told, 2).tolist() == expected
    assert failures_of(told, 2) == reset_failures_of(told, 2) == ["", ""]


@pytest.mark.parametrize("infos", [None, [{}, {}]])
def test_infos_of_a_batch_that_are_no_dict_are_a_failure(infos):
    batch = GuardedBatch(lambda: TellingBatch(infos))
    batch.reset(seed=0)
    *_, told = batch.step(STAY)
    kind = type(infos).__name__
    assert (
        failures_of(told, 2)
        == [f"its step() returned infos of type {kind}, but they must be a dict"] * 2
    )
