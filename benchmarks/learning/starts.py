"""Find the initial conditions that can be survived, with the policies of figure 6 and a tree search where all fail.

    python benchmarks/learning/starts.py run         # benchmarks/results/starts.json
    python benchmarks/learning/starts.py page        # fills in docs/results.md

An initial condition is *survivable* if one of the policies trained on its range survives 12 actions from there: agents
that leave the box leave it before (docs/studies/figure6.md). If all policies fail, a tree of actions is searched: each
component is -1, 0 or 1, so there are 27 actions at each of the first three decisions, after which each of the policies
continues to the twelfth action. At the second and third decision, the tree continues from at most 27 of the surviving
flows, sampled with a seed. An initial condition that the search survives is survivable; one that it does not survive is
counted as not survivable, as far as this search can tell.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import current_origin, write_json  # noqa: E402
from cases.baselines import Controller  # noqa: E402
from cases.episodes import Episodes  # noqa: E402
from coupling.evaluation.evaluate import PolicyController, evaluate  # noqa: E402
from rl_agent import Policy  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "starts.json"
TRAININGS = ROOT / "runs" / "figure6"
ENV = "flowsim/DCylinderWake-v0"
RANGES = ("narrow", "paper")
STARTS, HELD, DEPTH = 48, 12, 3
CORNERS = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=3)))

State = dict[str, Any]


def options_of(start_range: str) -> dict[str, Any]:
    """Return the options of the wake of figure 6 with a range of initial conditions."""
    return {"cells_per_diameter": 16, "start_range": start_range, "episode_actions": HELD}


def policies_of(start_range: str) -> dict[str, Policy]:
    """Return the policies of figure 6 that were trained on this machine on a range of initial conditions, by name."""
    found = sorted((TRAININGS / start_range).glob("*/checkpoint"))
    if not found:
        sys.exit(f"{TRAININGS / start_range} has no trainings: benchmarks/learning/figure6.py run")
    return {place.parent.name.partition("_")[2]: Policy.load(place) for place in found}


class Flows:
    """A batch of flows that can be started from given states."""

    def __init__(self, start_range: str) -> None:
        mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
        env = gymnasium.make_vec(
            ENV, len(CORNERS), vectorization_mode=mode, **options_of(start_range)
        ).unwrapped
        self._episodes: Episodes = env.episodes  # type: ignore[attr-defined]

    def start(self, seed: int) -> State:
        """Return the initial state of an episode seed."""
        self._episodes.start({0: seeding.np_random(seed)[0]})
        return self._episodes.get_state(0)

    def branch(self, state: State) -> list[State]:
        """Take each of the 27 actions once from a state; return the states in which the agent survives."""
        self._begin([state] * len(CORNERS))
        lost = self._episodes.play(CORNERS).terminated
        return [self._episodes.get_state(int(k)) for k in np.flatnonzero(~lost)]

    def live(self, states: list[State], controller: Controller, actions: int) -> np.ndarray:
        """Return from which of at most 27 states a controller survives a number of actions, shape (states,)."""
        self._begin(states + [states[0]] * (len(CORNERS) - len(states)))
        alive = np.ones(len(CORNERS), dtype=bool)
        controller.reset(len(CORNERS))
        for _ in range(actions):
            chosen = controller(self._episodes.observations())
            alive &= ~self._episodes.play(chosen, alive.copy()).terminated
            if not alive.any():
                break
        return alive[: len(states)]

    def _begin(self, states: list[State]) -> None:
        for index, state in enumerate(states):
            self._episodes.set_state(index, state)


def search(flows: Flows, seed: int, controllers: Mapping[str, Controller]) -> dict[str, Any]:
    """Search for actions that survive an initial condition.

    Returns
    -------
    dict
        ``saved``, whether they were found; ``decisions``, the number of flows tried and left after each decision; and
        ``then``, the policy that survives from there, if one does.
    """
    chance, states, left = np.random.default_rng(seed), [flows.start(seed)], []
    for depth in range(1, DEPTH + 1):
        grown = [after for state in states for after in flows.branch(state)]
        left.append({"tried": len(states) * len(CORNERS), "left": len(grown)})
        if not grown:
            break
        chosen = chance.permutation(len(grown))[: len(CORNERS)]
        states = [grown[int(k)] for k in chosen]
        for name, controller in controllers.items():
            if flows.live(states, controller, HELD - depth).any():
                return {"saved": True, "decisions": left, "then": name}
    return {"saved": False, "decisions": left}


def study(start_range: str) -> dict[str, Any]:
    """Return the actions until each policy fails from each initial condition (0 if it survives), and the searches."""
    policies = policies_of(start_range)
    controllers = {
        name: PolicyController(policy, deterministic=True, seed=0)
        for name, policy in policies.items()
    }
    lost_after = {}
    for name, controller in controllers.items():
        found = evaluate(
            ENV, options_of(start_range), controller, episodes=STARTS, seed=EVALUATION_SEED
        )
        lost_after[name] = np.where(found.survived, 0, found.lengths).tolist()
        lost = int((~found.survived).sum())
        print(f"{start_range}: {name} loses {lost} of {STARTS} starts", flush=True)
    flows, searches = Flows(start_range), {}
    for index in np.flatnonzero(np.array(list(lost_after.values())).all(axis=0)).tolist():
        searches[str(index)] = search(
            flows, episode_seed(Purpose.EVALUATION, EVALUATION_SEED, index), controllers
        )
        print(f"{start_range}: start {index}: {searches[str(index)]}", flush=True)
    return {"lost_after": lost_after, "searches": searches}


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each range."""
    lines = [
        "| initial conditions | policies | failures of each policy, of 48 episodes | failures of all policies | "
        "of these, survived in the search | survivable |",
        "| --- | --: | --- | --: | --: | --: |",
    ]
    for start_range, of_range in found.items():
        lost = np.array(list(of_range["lost_after"].values())) > 0
        each, by_all = sorted(lost.sum(axis=1).tolist()), int(lost.all(axis=0).sum())
        saved = sum(one["saved"] for one in of_range["searches"].values())
        lines.append(
            f"| {start_range} | {len(lost)} | {', '.join(map(str, each))} | {by_all} | {saved} | "
            f"{lost.shape[1] - by_all + saved} of {lost.shape[1]} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the study and store its results, or only write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "page"))
    if parser.parse_args().what == "run":
        origin = current_origin()
        ranges = {start_range: study(start_range) for start_range in RANGES}
        write_json(RESULT, origin | {"ranges": ranges})
    found = json.loads(RESULT.read_text())["ranges"]
    fill_in(ROOT / "docs" / "results.md", "learning/starts", "starts", table(found))


if __name__ == "__main__":
    main()
