"""Names and colours of the methods, the same in every plot."""

from collections.abc import Iterable
from typing import Final

from rl_agent.config.agent import AgentConfig
from rl_agent.config.registry import algorithms

__all__ = ["method_colours", "method_name", "styles_of"]

REPLAYS: Final = {"refer": " + ReF-ER", "refer-1": " + ReF-ER-1", "refer-2": " + ReF-ER-2"}
"""Suffix of a method's name for each ``agent.replay``; ReF-ER stands for both of its rules."""

VARIANTS: Final = {
    "SAC + ReF-ER-1": "#ff7f0e", "stable-baselines3 SAC": "#7f1d1d", "DDPG + ReF-ER": "#1b7837",
    "NAF + ReF-ER": "#8c564b", "stable-baselines3 PPO": "#4a1486",
    "ACER, ratio 0": "#7fb7d6", "ACER, ratio 1": "#3f97c9", "ACER, ratio 4": "#1762a8", "ACER, ratio 8": "#0b2f6c",
    "NERS": "#1b9e77", "ERO": "#d95f02", "PER": "#7570b3", "RANDOM": "#666666",
    "LDI": "#1f78b4", "FDI": "#33a02c", "LDCo": "#ff7f00", "FDCo": "#6a3d9a",
}  # fmt: skip
"""Colours of methods other than the algorithms, whose colours are in their settings."""

_OTHERS: Final = (
    "#c48f00", "#7b4173", "#222222", "#e6550d", "#6b6ecf", "#008080", "#ce6dbd", "#637939", "#843c39", "#00c853",
)  # fmt: skip
_DASHES: Final = ("solid", "dashed", "dotted")


def method_name(algorithm: str, replay: str = "none") -> str:
    """Return the name of a method, such as ``SAC + ReF-ER-1``.

    Parameters
    ----------
    algorithm, replay
        As in ``agent.algorithm`` and ``agent.replay``.
    """
    kind = algorithms().get(algorithm, AgentConfig)
    added = "" if replay == kind.title_replay else REPLAYS.get(replay, "")
    return (kind.title or algorithm) + added


def method_colours() -> dict[str, str]:
    """Return the colours of methods by name."""
    return {kind.title: kind.colour for kind in algorithms().values() if kind.colour} | VARIANTS


def styles_of(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return colour and line style for each name, as keyword arguments of matplotlib's ``plot``.

    Known methods have fixed colours; other names get further colours in their order.
    """
    styles, number, colours = {}, 0, method_colours()
    for name in dict.fromkeys(names):
        if name in colours:
            styles[name] = {"color": colours[name], "linestyle": "solid"}
            continue
        rounds, place = divmod(number, len(_OTHERS))
        styles[name] = {"color": _OTHERS[place], "linestyle": _DASHES[rounds % len(_DASHES)]}
        number += 1
    return styles
