"""PPO of TorchRL on a flow task, evaluated against the baselines on held-out episodes (extra `torchrl`).

python examples/with_torchrl.py --steps 2000
python examples/with_torchrl.py --steps 24000 --task RotatingCylinder --preset quick --episodes 10
"""

import argparse

import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs.libs.gym import GymEnv
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from cases.baselines import FunctionController
from coupling.evaluation.evaluate import evaluate_with_baselines
from coupling.run.tables import print_results


def main() -> None:
    """Train, and evaluate on the held-out episodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--task", default="DCylinderWake")
    parser.add_argument("--preset", default="sketch")
    args = parser.parse_args()
    task, options = f"cases:flowsim/{args.task}-v0", {"preset": args.preset}
    torch.manual_seed(0)
    env = GymEnv(task, **options)
    seen, acted = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    network = torch.nn.Sequential(MLP(seen, 2 * acted, num_cells=[64, 64]), NormalParamExtractor())
    normal = TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"])
    actor = ProbabilisticActor(
        normal, ["loc", "scale"], spec=env.action_spec, distribution_class=TanhNormal, return_log_prob=True
    )  # fmt: skip
    critic = ValueOperator(MLP(seen, 1, num_cells=[64, 64]), in_keys=["observation"])
    advantage, loss = GAE(gamma=0.97, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    for batch in Collector(env, actor, frames_per_batch=500, total_frames=args.steps):
        for _ in range(10):
            advantage(batch)
            losses = loss(batch.reshape(-1))
            optimizer.zero_grad()
            (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
            optimizer.step()
        print(f"{batch.numel()} actions, mean reward {batch['next', 'reward'].mean():.3f}")

    def act(observations: np.ndarray) -> np.ndarray:
        seen = TensorDict({"observation": torch.as_tensor(observations)}, [len(observations)])
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            return actor(seen)["action"].numpy()

    found = evaluate_with_baselines(task, options, FunctionController(act), episodes=args.episodes)
    print_results({"trained": found, **found["baselines"]}, found["seed"])


if __name__ == "__main__":
    main()
