"""Names and colours of the methods: the same in every plot, whoever draws it."""

from collections.abc import Iterable
from typing import Final

__all__ = ["METHODS", "method_name", "styles_of"]

ALGORITHMS: Final = {
    "vracer": "V-RACER", "ddpg": "DDPG", "naf": "NAF", "td3": "TD3", "sac": "SAC", "ppo": "PPO", "acer": "ACER",
    "a3c": "A3C", "trust-a3c": "Trust-A3C", "tis": "TIS", "trust-tis": "Trust-TIS", "dqn": "DQN", "rainbow": "Rainbow",
}  # fmt: skip
"""What an ``agent.algorithm`` is called."""

REPLAYS: Final = {"refer": " + ReF-ER", "refer-1": " + ReF-ER-1", "refer-2": " + ReF-ER-2"}
"""What an ``agent.replay`` adds to the name: ReF-ER is both of its rules."""

METHODS: Final = {
    "V-RACER": "#1f77b4", "SAC": "#d62728", "SAC + ReF-ER-1": "#ff7f0e", "stable-baselines3 SAC": "#7f1d1d",
    "DDPG": "#74c476", "DDPG + ReF-ER": "#1b7837", "NAF": "#c49c94", "NAF + ReF-ER": "#8c564b", "TD3": "#e377c2",
    "PPO": "#9467bd", "stable-baselines3 PPO": "#4a1486", "ACER": "#17becf", "A3C": "#bcbd22", "Trust-A3C": "#737300",
    "TIS": "#969696", "Trust-TIS": "#525252", "DQN": "#393b79", "Rainbow": "#ad494a",
    "ACER, ratio 0": "#7fb7d6", "ACER, ratio 1": "#3f97c9", "ACER, ratio 4": "#1762a8", "ACER, ratio 8": "#0b2f6c",
    "NERS": "#1b9e77", "ERO": "#d95f02", "PER": "#7570b3", "RANDOM": "#666666",
    "LDI": "#1f78b4", "FDI": "#33a02c", "LDCo": "#ff7f00", "FDCo": "#6a3d9a",
}  # fmt: skip
"""Colours of methods."""

_OTHERS: Final = (
    "#c48f00", "#7b4173", "#222222", "#e6550d", "#6b6ecf", "#008080", "#ce6dbd", "#637939", "#843c39", "#3182bd",
)  # fmt: skip
_DASHES: Final = ("solid", "dashed", "dotted")


def method_name(algorithm: str, replay: str = "none") -> str:
    """Return what a method is called: ``SAC + ReF-ER-1``.

    Parameters
    ----------
    algorithm, replay
        As in ``agent.algorithm`` and ``agent.replay``.
    """
    # V-RACER was made with ReF-ER and is called by its own name with it
    added = "" if (algorithm, replay) == ("vracer", "refer") else REPLAYS.get(replay, "")
    return ALGORITHMS.get(algorithm, algorithm) + added


def styles_of(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return colour and dashes for each name, as matplotlib's ``plot`` takes them.

    A method has its own colour; variants, which have none, take others in their order.
    """
    styles, number = {}, 0
    for name in dict.fromkeys(names):
        if name in METHODS:
            styles[name] = {"color": METHODS[name], "linestyle": "solid"}
            continue
        rounds, place = divmod(number, len(_OTHERS))
        styles[name] = {"color": _OTHERS[place], "linestyle": _DASHES[rounds % len(_DASHES)]}
        number += 1
    return styles
