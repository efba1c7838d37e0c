"""Seeds of episodes by purpose, so that training and evaluation never use the same episodes.

Each purpose has its own range of the 32-bit seeds, and the ranges are disjoint: a seed determines its purpose, and two
purposes never share a seed. Small seeds, such as ``env.reset(seed=0)``, belong to training.
"""

from enum import Enum

import numpy as np

__all__ = ["EVALUATION_SEED", "Purpose", "episode_seed"]

EVALUATION_SEED = 0
"""Default seed of evaluations and films; the first k episodes of all of them are therefore the same."""


class Purpose(Enum):
    """Purposes of episodes, and their ranges of seeds.

    Attributes
    ----------
    TRAINING
        Episodes to learn from.
    EVALUATION
        Held-out episodes for reporting and filming a controller, not used for learning or selection.
    SELECTION
        Episodes for choosing among controllers before the chosen one is evaluated: a search, a checkpoint, a setting.
    """

    TRAINING = range(2**31)
    EVALUATION = range(2**31, 3 * 2**30)
    SELECTION = range(3 * 2**30, 2**32)


def episode_seed(purpose: Purpose, seed: int, *index: int, states: int = 0) -> int:
    """Return the 32-bit seed of an episode.

    Parameters
    ----------
    purpose
        Purpose of the episode.
    seed
        Seed of the run or of the evaluation.
    index
        Index of the episode, one number or several, such as agent and session. An index and a longer one that
        begins with it give different seeds: (3,) differs from (3, 0).
    states
        Number of initial states for this purpose, if the task selects the one with the number seed modulo ``states``:
        consecutive episodes then begin in different states. 0: not restricted.

    Returns
    -------
    int
        Seed in the range of the purpose.
    """
    own = purpose.value
    # as a spawn key, because entropy would be padded with zeros
    sequence = np.random.SeedSequence(seed, spawn_key=(own.start >> 30, *index))
    found = own[int(sequence.generate_state(1)[0]) % len(own)]
    if states:
        found += (index[-1] - found) % states
    return found if found in own else found - states
