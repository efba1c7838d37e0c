"""Gymnasium's own tools: a batch of flows with its wrappers, and a film with RecordVideo (extra `video`).

python examples/with_gymnasium.py --actions 20
"""

import argparse

import gymnasium
from gymnasium.wrappers import RecordVideo
from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics

WAKE = "cases:flowsim/DCylinderWake-v0"


def main() -> None:
    """Take random actions in a batch of four flows, then film one flow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actions", type=int, default=20)
    actions = parser.parse_args().actions

    batch = gymnasium.make_vec(
        WAKE, num_envs=4, vectorization_mode="vector_entry_point", preset="sketch"
    )
    envs = NormalizeObservation(RecordEpisodeStatistics(batch))
    envs.reset(seed=0)
    envs.action_space.seed(0)
    ended = 0
    for _ in range(actions):
        _, _, terminated, truncated, _ = envs.step(envs.action_space.sample())
        ended += int((terminated | truncated).sum())
    print(f"{ended} episodes ended in {actions} steps of {batch.num_envs} flows")

    env = RecordVideo(gymnasium.make(WAKE, preset="sketch", render_mode="rgb_array"), "videos")
    env.reset(seed=0)
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        over = terminated or truncated
    env.close()
    print(f"videos/rl-video-episode-0.mp4 shows the episode, which took {info['time']:.1f} D/U")


if __name__ == "__main__":
    main()
