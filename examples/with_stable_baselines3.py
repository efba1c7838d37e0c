"""SAC or PPO of Stable-Baselines3 on a flow task; needs `pip install 'flowsim-rl[sb3]'`.

python examples/with_stable_baselines3.py sac --steps 5000
python examples/with_stable_baselines3.py sac --steps 24000 --task CylinderJets --preset quick
"""

import argparse

import gymnasium
import numpy as np
import stable_baselines3

SETTINGS = {
    "sac": (stable_baselines3.SAC, {"learning_starts": 100}),
    "ppo": (stable_baselines3.PPO, {"n_steps": 128}),
}


def main() -> None:
    """Train, play five held-out episodes, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("algorithm", choices=SETTINGS)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--task", default="DCylinderWake")
    parser.add_argument("--preset", default="sketch")
    args = parser.parse_args()
    env = gymnasium.make(f"cases:flowsim/{args.task}-v0", preset=args.preset)
    learner, settings = SETTINGS[args.algorithm]
    model = learner("MlpPolicy", env, gamma=0.97, seed=0, device="cpu", **settings)
    model.learn(total_timesteps=args.steps)
    returns, measured = [], []
    for seed in range(2**31, 2**31 + 5):  # seeds of the held-out initial states
        observation, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, info = env.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
        measured.append(info.get("measures", {}))  # drag, net power and so on; the wake has none
    print(f"mean return {np.mean(returns):.1f}")
    for name in measured[0]:
        print(f"{name} at the end {np.mean([values[name] for values in measured]):.3f}")
    model.save(f"{args.task}-{args.algorithm}")


if __name__ == "__main__":
    main()
