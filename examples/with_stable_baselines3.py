"""SAC or PPO of stable-baselines3 on the wake of a cylinder; needs `pip install 'flowsim-rl[sb3]'`.

python examples/with_stable_baselines3.py sac --steps 5000
"""

import argparse

import gymnasium
import stable_baselines3
from stable_baselines3.common.evaluation import evaluate_policy


def main() -> None:
    """Train, evaluate, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("algorithm", choices=("sac", "ppo"))
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--preset", default="sketch")
    args = parser.parse_args()
    env = gymnasium.make("cases:flowsim/DCylinderWake-v0", preset=args.preset)
    if args.algorithm == "sac":
        model = stable_baselines3.SAC(
            "MlpPolicy", env, gamma=0.97, learning_starts=100, seed=0, device="cpu"
        )
    else:
        model = stable_baselines3.PPO(
            "MlpPolicy", env, gamma=0.97, n_steps=128, seed=0, device="cpu"
        )
    model.learn(total_timesteps=args.steps)
    mean, spread = evaluate_policy(model, model.get_env(), n_eval_episodes=5)
    print(f"mean return {mean:.1f}, standard deviation {spread:.1f}")
    model.save(f"wake-{args.algorithm}")


if __name__ == "__main__":
    main()
