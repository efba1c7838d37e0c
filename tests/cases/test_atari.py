"""Atari and MinAtar tasks; tests of the games are skipped without the extras, tests of the error messages are not."""

import gymnasium as gym
import numpy as np
import pytest

import cases  # noqa: F401  (registers the tasks)
from coupling.errors import ConfigError
from coupling.worker.environments import describe_task, make_vector

ATARI, MINATAR = "flowsim/Atari-v0", "flowsim/MinAtar-v0"


@pytest.fixture
def atari():
    """A function that makes an Atari game; skipped without the extra."""
    pytest.importorskip("ale_py", reason="Atari needs ale-py: pip install 'flowsim-rl[atari]'")
    pytest.importorskip("cv2", reason="Atari needs OpenCV: pip install 'flowsim-rl[atari]'")
    return lambda **options: gym.make(ATARI, **options)


@pytest.fixture
def minatar():
    """A function that makes a MinAtar game; skipped without the extra."""
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
def test_invalid_option_is_refused_in_one_sentence(task, options, words):
    with pytest.raises(ConfigError, match=words) as error:
        make_vector(task, options, 1)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("task", "module", "extra"), [(ATARI, "ale_py", "atari"), (MINATAR, "minatar", "minatar")]
)
def test_missing_extra_message_says_how_to_install_it(monkeypatch, task, module, extra):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(
        ConfigError, match=rf"it needs {module}: pip install 'flowsim-rl\[{extra}\]'"
    ):
        make_vector(task, {}, 1)


def test_unknown_game_is_refused(atari, minatar):
    with pytest.raises(
        ConfigError, match=r"game = 'mspacman': no such game; did you mean 'ms_pacman'\?"
    ):
        make_vector(ATARI, {"game": "mspacman"}, 1)
    with pytest.raises(
        ConfigError, match=r"game = 'pong': no such game; allowed are asterix, breakout"
    ):
        make_vector(MINATAR, {"game": "pong"}, 1)


def test_frame_is_the_grey_maximum_of_the_last_two_of_four(atari):
    """Compare with the emulator: the same ROM and actions, frame by frame, resized by OpenCV."""
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


def test_sticky_actions_apply_only_if_enabled(atari):
    actions = np.random.default_rng(0).integers(0, 4, 60)
    plain, again, sticky, other = (
        played(atari(game="breakout", sticky=sticky), actions, seed)
        for sticky, seed in ((False, 0), (False, 0), (True, 0), (True, 0))
    )
    np.testing.assert_array_equal(plain, again)
    np.testing.assert_array_equal(sticky, other)
    assert (plain != sticky).any()


def test_lost_life_ends_an_episode_if_requested(atari):
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


def test_observations_of_a_batch_are_flat_pictures(atari):
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


def test_minatar_has_a_channel_per_object_type(minatar):
    game = minatar(game="breakout")
    seen = played(game, [0] * 9).reshape(-1, 4, 10, 10)
    assert set(np.unique(seen)) == {0, 1}
    np.testing.assert_array_equal(seen[:, 0].sum((1, 2)), 1)  # the paddle
    bricks = (np.arange(10) > 0) & (np.arange(10) < 4)
    np.testing.assert_array_equal(seen[0, 3], np.repeat(bricks, 10).reshape(10, 10))
    np.testing.assert_array_equal(played(game, [0, 1, 2] * 5), played(game, [0, 1, 2] * 5))
    assert game.spec.max_episode_steps == 5000


def test_minatar_render_shows_the_objects(minatar):
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
