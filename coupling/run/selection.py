"""Choice of the final policy of a run: with ``run.select_episodes``, the best of several from the end of the training.

Policies at different times of a training fail from different initial conditions, and the last one is not always the
best. Therefore a few are kept, all of them are evaluated on the same episodes, and the one with the highest mean return
becomes the policy of the run. The seeds of these episodes are those of ``Purpose.SELECTION``. They are used neither for
training nor for reported evaluations, because the result of the best of several is biased upwards on the episodes that
selected it.
"""

import json
import re
from pathlib import Path
from typing import Any

from coupling.evaluation.evaluate import PolicyController, evaluate
from coupling.evaluation.pool import EvaluationPool
from coupling.files import make_folders, read_json, reporting_damage, write_atomically
from coupling.run.action_limit import limiting_actions
from coupling.run.folder import RunFolder
from coupling.run.policies import read_policy
from coupling.run.screen import Screen
from coupling.settings.config import RunConfig, RunSettings
from rl_agent.learner import Learner
from rl_agent.rollout.seeds import Purpose

__all__ = [
    "CANDIDATES",
    "Candidates",
    "choose_policy",
    "describe_choice",
    "kept_policies",
    "planned_steps",
]

CANDIDATES = 6
"""Number of policies to choose from; the last one is that of the end of the training."""
_LAST_PART = 3
"""The candidates come from the last third of the training."""
_SEED = 0
_NUMBER = re.compile(r"[0-9]{12}")
"""Name of a kept policy; a copy that a person has made of one has another."""


class Candidates:
    """Policies that a run keeps during its training, one file each, named by the environment steps.

    Parameters
    ----------
    folder
        Folder of the run.
    run
        Settings of the run; no policies are kept unless they ask for a choice.
    """

    def __init__(self, folder: RunFolder, run: RunSettings) -> None:
        self._folder = folder.candidates
        self._due = planned_steps(run.steps) if run.select_episodes else []

    def begin(self, environment_steps: int) -> None:
        """Delete the policies from beyond the learner's steps, and those of a shorter training."""
        for steps, file in kept_policies(self._folder).items():
            if not self._due or not self._due[0] <= steps <= environment_steps:
                file.unlink()
        newest = max(kept_policies(self._folder), default=-1)
        self._due = [steps for steps in self._due if steps > newest]

    def are_due(self, environment_steps: int) -> bool:
        """Return whether a policy is to be kept at these steps."""
        return bool(self._due) and environment_steps >= self._due[0]

    def keep(self, learner: Learner) -> None:
        """Write the learner's policy."""
        make_folders(self._folder)
        steps = learner.environment_steps
        learner.policy().save(self._folder / f"{steps:012d}.npz")
        self._due = [each for each in self._due if each > steps]


def planned_steps(steps: int) -> list[int]:
    """Return the steps at which policies are kept before the last one, evenly over the last part of a training."""
    parts = _LAST_PART * CANDIDATES
    return sorted({steps - steps * back // parts for back in range(1, CANDIDATES)} - {steps})


def kept_policies(folder: Path) -> dict[int, Path]:
    """Return the files of the kept policies, by their environment steps."""
    files = [file for file in sorted(folder.glob("*.npz")) if _NUMBER.fullmatch(file.stem)]
    return {int(file.stem): file for file in files}


def choose_policy(folder: RunFolder, config: RunConfig, learner: Learner, screen: Screen) -> None:
    """Make the learner hand out the best of the kept policies and its own, and write the comparison to a file.

    Raises
    ------
    RunError
        If a kept policy cannot be read, or the task fails in all episodes.
    """
    run, last = config.run, learner.environment_steps
    learner.hand_out(None)
    policies = {
        steps: read_policy(file) for steps, file in kept_policies(folder.candidates).items()
    }
    policies[last] = learner.policy()
    screen.say(
        f"selecting the best of {len(policies)} policies from the training, over {run.select_episodes} episodes each"
    )
    found: dict[int, dict[str, Any]] = {}
    bound = run.select_max_actions or run.evaluate_max_actions
    with (
        EvaluationPool(
            config.env, config.env_options, max_actions=bound, purpose=Purpose.SELECTION
        ) as pool,
        limiting_actions(config, run.select_episodes, screen.say) as acted,
    ):
        for steps, policy in policies.items():

            def progress(over: int, actions: int, steps: int = steps) -> None:
                acted()
                screen.evaluating(f"policy at {steps} steps", over, run.select_episodes, actions)

            found[steps] = evaluate(
                config.env,
                config.env_options,
                PolicyController(policy, deterministic=True, seed=_SEED),
                episodes=run.select_episodes,
                seed=_SEED,
                progress=progress,
                pool=pool,
            ).summary()
    # the last one among equals
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
            f"  policy at {each['environment_steps']} steps: mean return {each['mean_return']:.4g}, survival "
            f"rate {each['survival']:.1%}"
        )
    screen.say(describe_choice(folder))


def describe_choice(folder: RunFolder) -> str:
    """Describe which policy a run or agent uses and how it was chosen; empty if none was chosen.

    Raises
    ------
    RunError
        If the file of the choice is damaged.
    """
    if not folder.selection.is_file():
        return ""
    choice = read_json(folder.selection)
    with reporting_damage(folder.selection):
        bound = f" of at most {choice['max_actions']} actions" if choice["max_actions"] else ""
        return (
            f"the policy at {choice['chosen']} environment steps, chosen from {len(choice['candidates'])} by mean "
            f"return in {choice['episodes']} other episodes{bound} (selection seed {choice['seed']})"
        )
