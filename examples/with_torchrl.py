"""The wake in TorchRL: transforms, a policy of tensordict and a collector; needs `pip install 'flowsim-rl[torchrl]'`.

python examples/with_torchrl.py --frames 400
"""

import argparse

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import RewardSum, TransformedEnv, check_env_specs
from torchrl.envs.libs.gym import GymEnv


def make() -> TransformedEnv:
    """Return the environment with the returns of its episodes."""
    return TransformedEnv(GymEnv("cases:flowsim/DCylinderWake-v0", preset="sketch"), RewardSum())


def main() -> None:
    """Collect with a policy that nobody has trained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=400)
    frames, env = parser.parse_args().frames, make()
    check_env_specs(env)
    network = torch.nn.Sequential(
        torch.nn.Linear(14, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3), torch.nn.Tanh()
    )
    policy = TensorDictModule(network, in_keys=["observation"], out_keys=["action"])
    collector = Collector(make, policy, frames_per_batch=100, total_frames=frames)
    for batch in collector:
        ended = batch["next", "done"].squeeze(-1)
        returns = batch["next", "episode_reward"].squeeze(-1)[ended]
        print(f"{batch.numel()} frames, {len(returns)} episodes, mean return {returns.mean():.1f}")
    collector.shutdown()


if __name__ == "__main__":
    main()
