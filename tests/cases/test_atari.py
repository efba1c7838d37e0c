"""Atari and MinAtar as tasks; without the extras what needs them is skipped, and the refusals are not."""

import gymnasium as gym
import numpy as np
import pytest

import cases  # noqa: F401  (registers the tasks)
from coupling.errors import ConfigError
from coupling.worker.environments import describe_task, make_vector

ATARI, MINATAR = "flowsim/Atari-v0", "flowsim/MinAtar-v0"


@pytest.fixture
def atari():
    """What makes a game."""
    pytest.importorskip("ale_py", reason="Atari needs ale-py: pip install 'flowsim-rl[atari]'")
    pytest.importorskip("cv2", reason="Atari needs OpenCV: pip install 'flowsim-rl[atari]'")
    return lambda **options: gym.make(ATARI, **options)


@pytest.fixture
def minatar():
    """What makes a small game."""
    pytest.importorskip(
        "minatar", reason="MinAtar is not installed: pip install 'flowsim-rl[minatar]'"
    )
    return lambda **options: gym.make(MINATAR, **options)


def played(game, actions, seed=0):
    seen = [game.reset(seed=seed)[0]]
    for action in actions:
        observation, _, ended, cut, _ = game.step(action)
        seen.append(game.reset()[0] if ended or cut else observation)
    return np.array(seen)


@pytest.mark.parametrize("task", [ATARI, MINATAR])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"frame_skip": 0},
            r"env_options\.frame_skip is no option|frame_skip = 0: .*greater than or equal to 1",
        ),
        (
            {"frameskip": 1},
            r"env_options\.frameskip is no option of env = 'flowsim/.*: "
            r"(did you mean 'frame_skip'|allowed are game, sticky)",
        ),
        ({"sticky": "often"}, r"sticky = 'often': .*boolean"),
    ],
)
def test_a_wrong_option_is_one_sentence(task, options, words):
    with pytest.raises(ConfigError, match=words) as error:
        make_vector(task, options, 1)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("task", "module", "extra"), [(ATARI, "ale_py", "atari"), (MINATAR, "minatar", "minatar")]
)
def test_without_the_extra_a_sentence_says_how_to_have_it(monkeypatch, task, module, extra):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(
        ConfigError, match=rf"it needs {module}: pip install 'flowsim-rl\[{extra}\]'"
    ):
        make_vector(task, {}, 1)


def test_a_game_that_is_not_there_is_refused(atari, minatar):
    with pytest.raises(
        ConfigError, match=r"game = 'mspacman': no such game; did you mean 'ms_pacman'\?"
    ):
        make_vector(ATARI, {"game": "mspacman"}, 1)
    with pytest.raises(
        ConfigError, match=r"game = 'pong': no such game; allowed are asterix, breakout"
    ):
        make_vector(MINATAR, {"game": "pong"}, 1)


def test_a_frame_is_the_greatest_of_the_last_two_of_four_in_grey(atari):
    """Against the emulator itself: the same ROM, the same actions, frame by frame, and OpenCV's own reduction."""
    import ale_py
    import cv2
    from ale_py.roms import get_rom_path

    seen = played(atari(game="breakout", no_ops=0), [1, 3, 2, 3], seed=3).reshape(-1, 84, 84)
    emulator = ale_py.ALEInterface()
    emulator.setInt("random_seed", 3)
    emulator.setFloat("repeat_action_probability", 0.0)
    emulator.loadROM(get_rom_path("breakout"))
    emulator.reset_game()
    legal = emulator.getMinimalActionSet()
    for action, picture in zip([1, 3, 2, 3], seen[1:], strict=True):
        screens = []
        for _ in range(4):
            emulator.act(legal[action])
            screens.append(emulator.getScreenGrayscale())
        greatest = np.maximum(*screens[-2:])
        np.testing.assert_array_equal(
            picture, cv2.resize(greatest, (84, 84), interpolation=cv2.INTER_AREA)
        )
    assert np.abs(np.diff(seen[1:].astype(int), axis=0)).max() > 50


def test_actions_stick_only_where_they_are_asked_to(atari):
    actions = np.random.default_rng(0).integers(0, 4, 60)
    plain, again, sticky, other = (
        played(atari(game="breakout", sticky=sticky), actions, seed)
        for sticky, seed in ((False, 0), (False, 0), (True, 0), (True, 0))
    )
    np.testing.assert_array_equal(plain, again)
    np.testing.assert_array_equal(sticky, other)
    assert (plain != sticky).any()


def test_a_lost_life_ends_an_episode_where_that_is_asked_for(atari):
    ends = {}
    for life_loss in (False, True):
        game = atari(game="breakout", life_loss=life_loss, no_ops=0)
        game.reset(seed=0)
        for t in range(400):
            _, _, ended, _, info = game.step([1, 0][t % 2])
            if ended:
                ends[life_loss] = info["lives"]
                break
    assert ends == {False: 0, True: 4}


def test_a_learner_sees_flat_pictures_of_a_whole_batch(atari):
    options = {"game": "ms_pacman", "size": 36}
    assert describe_task(ATARI, options).observation_space.shape == (1296,)
    assert atari(**options).action_space.n == 9
    assert atari(**options, full_actions=True).action_space.n == 18
    vector = make_vector(ATARI, options, 2)
    observations, _ = vector.reset(seed=0)
    assert observations.shape == (2, 1296)
    assert observations.dtype == np.uint8
    rewards = [vector.step(np.full((2, 1), 2.0))[1] for _ in range(100)]
    assert np.max(rewards) == 10.0


def test_a_small_game_has_a_channel_for_each_kind_of_thing(minatar):
    game = minatar(game="breakout")
    seen = played(game, [0] * 9).reshape(-1, 4, 10, 10)
    assert set(np.unique(seen)) == {0, 1}
    np.testing.assert_array_equal(seen[:, 0].sum((1, 2)), 1)  # the paddle
    bricks = (np.arange(10) > 0) & (np.arange(10) < 4)
    np.testing.assert_array_equal(seen[0, 3], np.repeat(bricks, 10).reshape(10, 10))
    np.testing.assert_array_equal(played(game, [0, 1, 2] * 5), played(game, [0, 1, 2] * 5))
    assert game.spec.max_episode_steps == 5000


def test_a_small_game_is_drawn_where_there_is_something(minatar):
    game = minatar(game="breakout", render_mode="rgb_array")
    seen, _ = game.reset(seed=0)
    picture = game.render()
    assert picture.shape == (10, 10, 3)
    assert picture.dtype == np.uint8
    things = seen.reshape(-1, 10, 10)
    np.testing.assert_array_equal(picture.any(axis=2), things.any(axis=0))
    paddle, bricks = things[0] > 0, things[3] > 0
    assert len(np.unique(picture[bricks], axis=0)) == len(np.unique(picture[paddle], axis=0)) == 1
    assert (picture[bricks][0] != picture[paddle][0]).any()
    unseen = minatar(game="breakout")
    unseen.reset(seed=0)
    assert unseen.render() is None
