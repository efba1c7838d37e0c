"""Gymnasium alone: random search for linear feedback in a batch of flows, evaluated on held-out episodes, and a film.

python examples/with_gymnasium.py --flows 4
python examples/with_gymnasium.py --flows 24 --task RotatingCylinder --preset quick --episodes 10

The film needs the extra `video`.
"""

import argparse

import gymnasium
import numpy as np
from gymnasium.wrappers import RecordVideo
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from coupling.evaluation.evaluate import evaluate_with_baselines


class Linear:
    """Linear feedback of the observations, with other gains in each flow or the same in all."""

    def __init__(self, gains: np.ndarray) -> None:
        self.gains = gains

    def reset(self, n: int) -> None:
        """Begin n episodes."""

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Return an action for each observation."""
        return np.tanh(np.einsum("...ao,...o->...a", self.gains, observations)).astype(np.float32)


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
    tried = Linear(0.3 * np.random.default_rng(0).standard_normal(sizes))
    observations, _ = envs.reset(seed=0)
    returns = np.full(args.flows, np.nan)
    while np.isnan(returns).any():
        observations, _, _, _, info = envs.step(tried(observations))
        over = info.get("_episode", np.zeros(args.flows, bool)) & np.isnan(returns)
        returns[over] = info["episode"]["r"][over] if over.any() else np.nan
    best = Linear(tried.gains[returns.argmax()])
    print(f"the best of {args.flows} random gains: return {returns.max():.1f} in its one episode")

    found = evaluate_with_baselines(task, options, best, episodes=args.episodes)
    for name, result in {"best": found, **found["baselines"]}.items():
        values = result.get("measures", {}).items()  # drag, net power and so on; the wake has none
        measures = (f", {key} {value['mean']:.3f} +- {value['rms']:.3f}" for key, value in values)
        print(f"{name}: return {result['mean_return']:.1f}", *measures, sep="")

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
