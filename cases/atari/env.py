"""Atari and MinAtar games with flat images as observations, one frame per step; the replay memory stacks frames.

The screen is preprocessed by Gymnasium's wrappers: no-ops at the start, every fourth frame, the maximum of the last
two, greyscale, 84 x 84 (Mnih et al. 2015; Machado et al. 2018, section 3). With sticky actions (Machado et al. 2018,
section 5.2), on each frame the last action is repeated with probability 0.25 instead of the new one; earlier papers do
not use them. Episodes are truncated after 27,000 actions, half an hour of play.
"""

from __future__ import annotations

import colorsys
import importlib
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cases.error_messages import did_you_mean, nearest, refuse_unknown, sentence_of

__all__ = ["AtariOptions", "MinAtar", "MinAtarOptions", "make_atari"]

OptionsT = TypeVar("OptionsT", bound=BaseModel)

STICKINESS = 0.25
"""Probability that an action is repeated."""
MINATAR = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


class AtariOptions(BaseModel):
    """Options of ``flowsim/Atari-v0``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    game: str = Field("pong", description="name of the ROM, such as ms_pacman")
    sticky: bool = Field(False, description="whether actions are sticky")
    frame_skip: int = Field(4, ge=1, le=60, description="frames of an action")
    no_ops: int = Field(
        30, ge=0, le=1000, description="at most so many actions without effect at the start"
    )
    size: int = Field(84, ge=8, le=210, description="height and width of a picture")
    life_loss: bool = Field(False, description="whether a lost life ends the episode")
    full_actions: bool = Field(
        False, description="all 18 actions, instead of those that the game knows"
    )


class MinAtarOptions(BaseModel):
    """Options of ``flowsim/MinAtar-v0``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    game: str = Field("breakout", description=f"one of {', '.join(MINATAR)}")
    sticky: bool = Field(False, description="whether actions are sticky, with probability 0.1")


def make_atari(render_mode: str | None = None, **options: Any) -> gym.Env[Any, Any]:
    """Make an Atari game with the options of ``AtariOptions``.

    Returns
    -------
    gym.Env
        Observations are flattened greyscale images, shape (size * size,), with values from 0 to 255.

    Raises
    ------
    gym.error.DependencyNotInstalled
        If the extra ``atari`` is not installed.
    TypeError, ValueError
        For an unknown option, an invalid value or an unknown game.
    """
    chosen = _checked(AtariOptions, options)
    ale = _imported("ale_py", "atari")
    _imported("cv2", "atari")
    roms = importlib.import_module("ale_py.roms").get_all_rom_ids()
    _known(chosen.game, roms)
    ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)
    base = ale.AtariEnv(
        game=chosen.game,
        render_mode=render_mode,
        frameskip=1,
        repeat_action_probability=STICKINESS if chosen.sticky else 0.0,
        full_action_space=chosen.full_actions,
    )
    game: gym.Env[Any, Any] = gym.wrappers.AtariPreprocessing(
        base,
        noop_max=chosen.no_ops,
        frame_skip=chosen.frame_skip,
        screen_size=chosen.size,
        terminal_on_life_loss=chosen.life_loss,
    )
    return gym.wrappers.FlattenObservation(game)


class MinAtar(gym.Env[Any, Any]):
    """A game of MinAtar (Young & Tian 2019), a simplified Atari game on a 10 x 10 grid with a channel per object type.

    Observations are flattened channel by channel, shape (channels * 100,), 1 where there is an object of the type and
    0 elsewhere; actions are those that have an effect in the game.

    Parameters
    ----------
    render_mode
        None or ``rgb_array``, an image with one pixel per cell and one colour per object type.
    **options
        Options of ``MinAtarOptions``.

    Raises
    ------
    gym.error.DependencyNotInstalled
        If the extra ``minatar`` is not installed.
    TypeError, ValueError
        For an unknown option, an invalid value or an unknown game.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own)

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        self.render_mode = render_mode
        chosen = _checked(MinAtarOptions, options)
        _known(chosen.game, MINATAR)
        module = _imported("minatar", "minatar")
        self._game = module.Environment(
            chosen.game, sticky_action_prob=0.1 if chosen.sticky else 0.0
        )
        self._actions = self._game.minimal_action_set()
        height, width, channels = self._game.state_shape()
        self.observation_space = gym.spaces.Box(0, 1, (height * width * channels,), np.uint8)
        self.action_space = gym.spaces.Discrete(len(self._actions))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.uint8], dict[str, Any]]:
        """Start a game."""
        super().reset(seed=seed)
        if seed is not None:
            self._game.seed(seed)
        self._game.reset()
        return self._picture(), {}

    def step(
        self, action: np.int64
    ) -> tuple[npt.NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Play one frame."""
        reward, ended = self._game.act(self._actions[int(action)])
        return self._picture(), float(reward), bool(ended), False, {}

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return an image in the mode ``rgb_array``; in a cell with several objects, the last type is visible."""
        if self.render_mode is None:
            return None
        state = self._game.state()
        picture = np.zeros((*state.shape[:2], 3), np.uint8)
        for kind in range(state.shape[2]):
            colour = colorsys.hsv_to_rgb(kind / state.shape[2], 0.6, 0.95)
            picture[state[..., kind] > 0] = np.multiply(255, colour).round()
        return picture

    def _picture(self) -> npt.NDArray[np.uint8]:
        return np.ascontiguousarray(np.moveaxis(self._game.state(), 2, 0)).astype(np.uint8).ravel()


def _checked(model: type[OptionsT], options: dict[str, Any]) -> OptionsT:
    refuse_unknown(options, model.model_fields)
    try:
        return model.model_validate(options)
    except ValidationError as error:
        raise ValueError(sentence_of(error, model)) from None


def _imported(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise gym.error.DependencyNotInstalled(
            f"it needs {module}: pip install 'flowsim-rl[{extra}]'"
        ) from error


def _known(game: str, games: Any) -> None:
    if game not in games:
        meant = nearest(game.lower(), games, likeness=0.6)
        hint = did_you_mean(meant, f"allowed are {', '.join(sorted(games))}")
        raise ValueError(f"game = {game!r}: no such game; {hint}")
