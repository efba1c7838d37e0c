"""Proximal policy optimisation in one file, on any Gymnasium task with a `Box` action space, independent of rl_agent.

    python examples/ppo_one_file.py                                    # the coarsest wake, 8 agents in one batch
    python examples/ppo_one_file.py --env Pendulum-v1 --steps 100000

Schulman et al., "Proximal Policy Optimization Algorithms" (2017), with generalised advantage estimation (2016), in the
style of CleanRL: everything from the arguments to the update, in the order in which it happens.
"""

import argparse

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn

import cases  # noqa: F401  (registers the flow tasks)

GAMMA, LAMBDA, CLIP, EPOCHS, BATCHES, RATE = 0.97, 0.95, 0.2, 10, 8, 1e-3


def make(env: str, count: int) -> gymnasium.vector.VectorEnv:
    """Return a batch of environments that reset in the same step in which an episode ends."""
    if gymnasium.spec(env).vector_entry_point:  # the flows of a batch are simulated together
        options = {"preset": "sketch"} if env.startswith("flowsim/DCylinderWake") else {}
        mode = AutoresetMode.SAME_STEP
        return gymnasium.make_vec(
            env, count, vectorization_mode="vector_entry_point", autoreset_mode=mode, **options
        )
    return gymnasium.make_vec(
        env, count, "sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
    )


def network(inputs: int, outputs: int, last: float) -> nn.Sequential:
    """Return two layers of 64 units with orthogonal weights, and a linear layer scaled by `last`."""
    layers = [
        nn.Linear(inputs, 64),
        nn.Tanh(),
        nn.Linear(64, 64),
        nn.Tanh(),
        nn.Linear(64, outputs),
    ]
    for layer, gain in zip(layers[::2], (2**0.5, 2**0.5, last), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class Scale:
    """Normalises observations by the mean and variance of all observations so far."""

    def __init__(self, size: int) -> None:
        self.mean, self.var, self.count = np.zeros(size), np.ones(size), 1e-4

    def __call__(self, x: np.ndarray, update: bool = True) -> torch.Tensor:
        """Return normalised observations (n, size), after updating the statistics with them."""
        if update:
            total, shift = self.count + len(x), x.mean(axis=0) - self.mean
            self.var = (
                self.var * self.count
                + x.var(axis=0) * len(x)
                + shift**2 * self.count * len(x) / total
            ) / total
            self.mean, self.count = self.mean + shift * len(x) / total, total
        return torch.as_tensor(
            np.clip((x - self.mean) / np.sqrt(self.var + 1e-8), -10, 10), dtype=torch.float32
        )


# one function, which reads from top to bottom like the algorithm
def main() -> list[float]:
    """Train, and return the returns of all episodes in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="flowsim/DCylinderWake-v0")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument(
        "--length", type=int, default=128, help="steps of each environment between two updates"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    envs = make(args.env, args.envs)
    assert isinstance(envs.single_observation_space, gymnasium.spaces.Box)
    assert isinstance(envs.single_action_space, gymnasium.spaces.Box)
    size, actions = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    low, high = envs.single_action_space.low, envs.single_action_space.high
    policy, value, scale = network(size, actions, 0.01), network(size, 1, 1.0), Scale(size)
    log_std = nn.Parameter(torch.full((actions,), -0.5))
    parameters = [*policy.parameters(), *value.parameters(), log_std]
    optimizer = torch.optim.Adam(parameters, lr=RATE, eps=1e-5)

    def distribution(x: torch.Tensor) -> torch.distributions.Independent:
        return torch.distributions.Independent(
            torch.distributions.Normal(policy(x), log_std.exp()), 1
        )

    observation, _ = envs.reset(seed=args.seed)
    x = scale(observation)
    running, episodes = np.zeros(args.envs), []
    for update in range(max(1, args.steps // (args.envs * args.length))):
        # collect
        kept: dict[str, list[torch.Tensor]] = {
            name: [] for name in ("x", "a", "logp", "v", "r", "ended")
        }
        for _ in range(args.length):
            with torch.no_grad():
                act = distribution(x)
                a = act.sample()
                logp, v = act.log_prob(a), value(x).squeeze(-1)
            # the policy acts in units of half the range of the action space
            given = np.clip(low + (a.numpy() + 1) / 2 * (high - low), low, high)
            observation, reward, terminated, truncated, infos = envs.step(given.astype(low.dtype))
            ended, running = terminated | truncated, running + reward
            reward = np.asarray(reward, np.float64).copy()
            for i in np.flatnonzero(ended):
                # a truncated episode: bootstrap with the value of its last observation
                if not terminated[i]:
                    with torch.no_grad():
                        reward[i] += GAMMA * float(
                            value(scale(infos["final_obs"][i][None], update=False))
                        )
                episodes.append(float(running[i]))
                running[i] = 0.0
            for name, what in zip(kept, (x, a, logp, v, reward, ended), strict=True):
                kept[name].append(torch.as_tensor(what, dtype=torch.float32))
            x = scale(observation)

        # advantages, backwards in time
        with torch.no_grad():
            following, advantage = value(x).squeeze(-1), torch.zeros(args.envs)
        advantages = []
        for r, v, ended in zip(
            *(reversed(kept[name]) for name in ("r", "v", "ended")), strict=True
        ):
            delta = r + GAMMA * (1 - ended) * following - v
            advantage = delta + GAMMA * LAMBDA * (1 - ended) * advantage
            following = v
            advantages.append(advantage)
        data = {name: torch.stack(parts).flatten(0, 1) for name, parts in kept.items()}
        data["adv"] = torch.stack(advantages[::-1]).flatten()
        data["target"] = data["adv"] + data["v"]

        # update
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(data["x"])).chunk(BATCHES):
                b = {name: part[rows] for name, part in data.items()}
                act = distribution(b["x"])
                ratio = (act.log_prob(b["a"]) - b["logp"]).exp()
                adv = (b["adv"] - b["adv"].mean()) / (b["adv"].std() + 1e-8)
                gain = torch.minimum(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
                spread = data["target"].std() + 1e-8
                loss = (
                    -gain
                    + 0.5 * ((value(b["x"]).squeeze(-1) - b["target"]) / spread).square().mean()
                )
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()
        steps, last = (update + 1) * args.envs * args.length, episodes[-100:]
        print(
            f"{steps} steps, {len(episodes)} episodes, mean return {np.mean(last) if last else float('nan'):.3f}"
        )
    envs.close()
    return episodes


if __name__ == "__main__":
    main()
