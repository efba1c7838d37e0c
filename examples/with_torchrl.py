"""A flow task in TorchRL: transforms, a policy, a collector; needs `pip install 'flowsim-rl[torchrl]'`.

python examples/with_torchrl.py --frames 400
python examples/with_torchrl.py --frames 400 --task CylinderJets --preset quick
"""

import argparse
import functools

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import RewardSum, TransformedEnv, check_env_specs
from torchrl.envs.libs.gym import GymEnv


def make(task: str, preset: str) -> TransformedEnv:
    """Return the environment with episode returns."""
    return TransformedEnv(GymEnv(f"cases:flowsim/{task}-v0", preset=preset), RewardSum())


def main() -> None:
    """Collect transitions with an untrained policy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=400)
    parser.add_argument("--task", default="DCylinderWake")
    parser.add_argument("--preset", default="sketch")
    args = parser.parse_args()
    create = functools.partial(make, args.task, args.preset)
    env = create()
    check_env_specs(env)
    seen, acted = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    network = torch.nn.Sequential(
        torch.nn.Linear(seen, 32), torch.nn.Tanh(), torch.nn.Linear(32, acted), torch.nn.Tanh()
    )
    policy = TensorDictModule(network, in_keys=["observation"], out_keys=["action"])
    collector = Collector(create, policy, frames_per_batch=100, total_frames=args.frames)
    for batch in collector:
        ended = batch["next", "done"].squeeze(-1)
        returns = batch["next", "episode_reward"].squeeze(-1)[ended]
        print(f"{batch.numel()} frames, {len(returns)} episodes, mean return {returns.mean():.1f}")
    collector.shutdown()


if __name__ == "__main__":
    main()
