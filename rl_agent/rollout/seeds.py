"""Seeds of episodes, by what the episodes are for: what is trained on is never what is evaluated on.

Every purpose owns a range of the 32-bit seeds, and the ranges do not meet. So a seed tells what it is for, and no two
purposes can share one, whatever their numbers are. Small seeds, such as ``env.reset(seed=0)``, belong to training.
"""

from enum import Enum

import numpy as np

__all__ = ["EVALUATION_SEED", "Purpose", "episode_seed"]

EVALUATION_SEED = 0
"""Of every evaluation and film unless the caller says otherwise: the first k episodes of all of them are the same."""


class Purpose(Enum):
    """What episodes are for, and the seeds that they may have.

    Attributes
    ----------
    TRAINING
        Learn from them.
    EVALUATION
        Report what a controller does on episodes that nothing was learned or chosen from; film it.
    SELECTION
        Choose among controllers before the chosen one is evaluated: a search, a checkpoint, a setting.
    """

    TRAINING = range(2**31)
    EVALUATION = range(2**31, 3 * 2**30)
    SELECTION = range(3 * 2**30, 2**32)


def episode_seed(purpose: Purpose, seed: int, *index: int, states: int = 0) -> int:
    """Return the 32-bit seed of an episode.

    Parameters
    ----------
    purpose
        What the episode is for.
    seed
        Of the run, or of the evaluation.
    index
        Which episode it is, as one number or several, such as agent and session. An index and a longer one that
        begins with it give different seeds: (3,) is not (3, 0).
    states
        In how many initial states episodes of this purpose can begin, where the task takes the one whose number is the
        seed modulo ``states``: episodes that follow each other then begin in different ones. 0: any number.

    Returns
    -------
    int
        In the range of the purpose.
    """
    own = purpose.value
    # as a spawn key, for the entropy itself is filled up with zeros
    sequence = np.random.SeedSequence(seed, spawn_key=(own.start >> 30, *index))
    found = own[int(sequence.generate_state(1)[0]) % len(own)]
    if states:
        found += (index[-1] - found) % states
    return found if found in own else found - states
