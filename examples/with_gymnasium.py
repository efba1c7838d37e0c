"""Gymnasium alone: random search for linear feedback in a batch of flows, evaluated on held-out episodes, and a film.

python examples/with_gymnasium.py --flows 4
python examples/with_gymnasium.py --flows 24 --task RotatingCylinder --preset quick --episodes 10

The film needs the extra `video`.
"""

import argparse
import functools

import gymnasium
import numpy as np
from gymnasium.wrappers import RecordVideo
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from cases.baselines import FunctionController
from coupling.evaluation.evaluate import evaluate_with_baselines
from coupling.run.tables import print_results


def feedback(gains: np.ndarray, observations: np.ndarray) -> np.ndarray:
    """Return linear feedback of the observations, with other gains in each flow or the same in all."""
    return np.tanh(np.einsum("...ao,...o->...a", gains, observations)).astype(np.float32)


def main() -> None:
    """Give each flow of a batch its own gains, then evaluate and film the best ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flows", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--task", default="DCylinderWake")
    parser.add_argument("--preset", default="sketch")
    args = parser.parse_args()
    task, options = f"cases:flowsim/{args.task}-v0", {"preset": args.preset}
    batch = gymnasium.make_vec(
        task, num_envs=args.flows, vectorization_mode="vector_entry_point", **options
    )
    envs = RecordEpisodeStatistics(batch)
    sizes = args.flows, envs.single_action_space.shape[0], envs.single_observation_space.shape[0]
    tried = 0.3 * np.random.default_rng(0).standard_normal(sizes)
    observations, _ = envs.reset(seed=0)
    returns = np.full(args.flows, np.nan)
    while np.isnan(returns).any():
        observations, _, _, _, info = envs.step(feedback(tried, observations))
        over = info.get("_episode", np.zeros(args.flows, bool)) & np.isnan(returns)
        returns[over] = info["episode"]["r"][over] if over.any() else np.nan
    best = FunctionController(functools.partial(feedback, tried[returns.argmax()]))
    print(f"the best of {args.flows} random gains: return {returns.max():.1f} in its one episode")

    found = evaluate_with_baselines(task, options, best, episodes=args.episodes)
    print_results({"best": found, **found["baselines"]}, found["seed"])

    env = RecordVideo(gymnasium.make(task, render_mode="rgb_array", **options), "videos")
    observation, _ = env.reset(seed=0)
    over = False
    while not over:
        observation, _, terminated, truncated, _ = env.step(best(observation))
        over = terminated or truncated
    env.close()
    print("videos/rl-video-episode-0.mp4 shows an episode with the best gains")


if __name__ == "__main__":
    main()
