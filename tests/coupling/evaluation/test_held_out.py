"""Evaluations by all commands have the same initial conditions, and no training uses any of them."""

import json

import gymnasium as gym
import noting  # noqa: F401  (registers the task)
import numpy as np

from rl_agent.rollout.seeds import Purpose, episode_seed

AGENTS, EPISODES = 24, 5


def states(seeds, resets=1):
    """Return the initial states of the task for these seeds, and for the episodes after each."""
    env, found = gym.make("Noting-v0", file="/dev/null"), []
    for seed in seeds:
        for number in range(resets):
            seen = env.reset(seed=seed if number == 0 else None)[0]
            found.append(f"{seen[0]:.7f} {seen[1]:.7f}")
    return found


def test_all_evaluations_use_the_same_episodes_held_out_from_training(shell):
    held_out = states([episode_seed(Purpose.EVALUATION, 0, k) for k in range(EPISODES)])
    notes = shell.folder / "notes.txt"

    def taken(*words):
        """Run a command; return its output and the episodes that it began."""
        notes.write_text("")
        done = shell.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout, notes.read_text().splitlines()

    preset = shell.preset(
        env="noting:Noting-v0",
        env_options={"file": str(notes)},
        workers={"agents": AGENTS, "processes": 2},
        run={"steps": 960, "evaluate_episodes": 0},
    )
    said, trained = taken("train", preset)
    assert len(set(trained)) > 200
    assert not set(trained) & set(held_out)
    # the other evaluations that somebody may ask for are held out as well
    others = [episode_seed(Purpose.EVALUATION, seed, k) for seed in range(50) for k in range(96)]
    assert not set(trained) & set(states(others))
    first = states([episode_seed(Purpose.TRAINING, 0, agent, 0, 0) for agent in range(AGENTS)])
    assert set(trained) & set(first), "these are not the episodes of the training"

    said, evaluated = taken("evaluate", "runs/run", "--episodes", str(EPISODES))
    assert f"held-out episodes 0 to {EPISODES - 1} of evaluation seed 0" in said
    assert [line for line in evaluated if line in held_out][:EPISODES] == held_out
    told, fewer = taken("evaluate", "runs/run", "--episodes", "2", "--json")
    assert [line for line in fewer if line in held_out][:2] == held_out[:2]
    assert not set(held_out[2:]) & set(fewer)
    assert json.loads(told)["seed"] == 0
    assert json.loads(told)["episodes"] == 2
    told, other = taken("evaluate", "runs/run", "--episodes", "2", "--seed", "7", "--json")
    assert json.loads(told)["seed"] == 7
    assert not set(other) & set(held_out)

    _, filmed = taken("render", "runs/run", "-o", "end.png", "--episodes", "3", "--actions", "2")
    assert [line for line in filmed if line in held_out][:3] == held_out[:3]

    again = ["run.name=again", f"run.evaluate_episodes={EPISODES}", "run.steps=480", "run.seed=3"]
    said, own = taken("train", preset, *again)
    assert f"held-out episodes 0 to {EPISODES - 1} of evaluation seed 0" in said
    # before, after, drawing, zero and random
    assert [own.count(line) for line in held_out] == [5] * EPISODES
    kept = json.loads((shell.folder / "runs/again/evaluation.json").read_text())
    assert {kept[part]["seed"] for part in ("before", "drawing", "after")} == {0}
    assert np.isfinite(kept["after"]["median_return"])
    words = ["render", "runs/again", "-o", "end.png", "--episodes", "2", "--actions", "2"]
    said, _ = taken(*words)
    assert f"evaluation: trained agent: {kept['after']['mean_return']:.1f}" in said
