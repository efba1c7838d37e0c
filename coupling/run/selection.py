"""Which policy a run hands out: with ``run.select_episodes`` the best of several along the end of its training.

The policies along a training fail from different initial conditions, and the last one is not always the best. So a few
are kept, all of them are evaluated on the same episodes, and the one with the highest mean return is handed out. Their
seeds are of ``Purpose.SELECTION``: nothing is trained on them, and no evaluation reports them, since the best of
several is better there than anywhere else.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coupling.evaluation.evaluate import PolicyController, evaluate
from coupling.evaluation.pool import EvaluationPool
from coupling.files import make_folders, making_sense_of, read_json, write_atomically
from coupling.run.folder import RunFolder
from coupling.run.policies import read_policy
from coupling.settings.config import RunConfig, RunSettings
from rl_agent.learner import Learner
from rl_agent.rollout.seeds import Purpose

if TYPE_CHECKING:
    from coupling.run.training import Screen

__all__ = ["CANDIDATES", "Candidates", "choose_policy", "describe_choice", "planned_steps"]

CANDIDATES = 6
"""Policies among which is chosen; the last one is that of the end."""
_LAST_PART = 3
"""They come from the last third of the training."""
_SEED = 0


class Candidates:
    """The policies that a run keeps along its training, one file each, named by its environment steps.

    Parameters
    ----------
    folder
        Of the run.
    run
        Its settings; none are kept unless they ask for a choice.
    """

    def __init__(self, folder: RunFolder, run: RunSettings) -> None:
        self._folder = folder.candidates
        self._due = planned_steps(run.steps) if run.select_episodes else []

    def begin(self, environment_steps: int) -> None:
        """Forget those from beyond the learner's steps, and those of a shorter training."""
        for steps, file in _kept(self._folder).items():
            if not self._due or not self._due[0] <= steps <= environment_steps:
                file.unlink()
        newest = max(_kept(self._folder), default=-1)
        self._due = [steps for steps in self._due if steps > newest]

    def are_due(self, environment_steps: int) -> bool:
        """Tell whether a policy is to be kept at these steps."""
        return bool(self._due) and environment_steps >= self._due[0]

    def keep(self, learner: Learner) -> None:
        """Write the learner's policy."""
        make_folders(self._folder)
        steps = learner.environment_steps
        learner.policy().save(self._folder / f"{steps:012d}.npz")
        self._due = [each for each in self._due if each > steps]


def planned_steps(steps: int) -> list[int]:
    """Return when the policies are kept that precede the last one, evenly over the last part of a training."""
    parts = _LAST_PART * CANDIDATES
    return sorted({steps - steps * back // parts for back in range(1, CANDIDATES)} - {steps})


def _kept(folder: Path) -> dict[int, Path]:
    """Return the files of the policies that were kept, by their environment steps."""
    return {int(file.stem): file for file in sorted(folder.glob("*.npz"))}


def choose_policy(folder: RunFolder, config: RunConfig, learner: Learner, screen: "Screen") -> None:
    """Have the learner hand out the best of the kept policies and its own, and write down what was compared.

    Raises
    ------
    RunError
        When a kept policy cannot be read, or the task fails in all episodes.
    """
    run, last = config.run, learner.environment_steps
    learner.hand_out(None)
    policies = {steps: read_policy(file) for steps, file in _kept(folder.candidates).items()}
    policies[last] = learner.policy()
    screen.say(
        f"choosing among {len(policies)} policies of the training, over {run.select_episodes} episodes each"
    )
    found: dict[int, dict[str, Any]] = {}
    bound = run.select_max_actions or run.evaluate_max_actions
    with EvaluationPool(
        config.env, config.env_options, max_actions=bound, purpose=Purpose.SELECTION
    ) as pool:
        for steps, policy in policies.items():
            found[steps] = evaluate(
                config.env,
                config.env_options,
                PolicyController(policy, deterministic=True, seed=_SEED),
                episodes=run.select_episodes,
                seed=_SEED,
                progress=lambda over, actions, steps=steps: screen.evaluating(  # type: ignore[misc]
                    f"policy of {steps} steps", over, run.select_episodes, actions
                ),
                pool=pool,
            ).summary()
    # of equal ones the last
    chosen = max(found, key=lambda steps: (found[steps]["mean_return"], steps))
    learner.hand_out(policies[chosen].weights)
    learner.save(folder.checkpoint)
    choice: dict[str, Any] = {
        "chosen": chosen,
        "seed": _SEED,
        "episodes": run.select_episodes,
        "max_actions": bound,
        "candidates": [{"environment_steps": steps} | each for steps, each in found.items()],
    }
    write_atomically(folder.selection, json.dumps(choice, indent=1).encode())
    for each in choice["candidates"]:
        screen.say(
            f"  policy of {each['environment_steps']} steps: mean return {each['mean_return']:.4g}, "
            f"survival {each['survival']:.1%}"
        )
    screen.say(describe_choice(folder))


def describe_choice(folder: RunFolder) -> str:
    """Say which policy a run or agent hands out and how it was chosen; nothing where none was.

    Raises
    ------
    ConfigError
        When what was written down is damaged.
    """
    if not folder.selection.is_file():
        return ""
    choice = read_json(folder.selection)
    with making_sense_of(folder.selection):
        bound = f" of at most {choice['max_actions']} actions" if choice["max_actions"] else ""
        return (
            f"the policy of {choice['chosen']} environment steps, chosen among {len(choice['candidates'])} by their "
            f"mean return in {choice['episodes']} other episodes{bound} (selection seed {choice['seed']})"
        )
