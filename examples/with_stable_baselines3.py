"""SAC or PPO of Stable-Baselines3 on a flow task, evaluated against the baselines on held-out episodes (extra `sb3`).

python examples/with_stable_baselines3.py sac --steps 5000
python examples/with_stable_baselines3.py sac --steps 24000 --task CylinderJets --preset quick --episodes 10
"""

import argparse

import gymnasium
import stable_baselines3

from cases.baselines import FunctionController
from coupling.evaluation.evaluate import evaluate_with_baselines
from coupling.run.tables import print_results

SETTINGS = {
    "sac": (stable_baselines3.SAC, {"learning_starts": 100}),
    "ppo": (stable_baselines3.PPO, {"n_steps": 128}),
}


def main() -> None:
    """Train, save, and evaluate on the held-out episodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("algorithm", choices=SETTINGS)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--task", default="DCylinderWake")
    parser.add_argument("--preset", default="sketch")
    args = parser.parse_args()
    task, options = f"cases:flowsim/{args.task}-v0", {"preset": args.preset}
    learner, settings = SETTINGS[args.algorithm]
    env = gymnasium.make(task, **options)
    model = learner("MlpPolicy", env, gamma=0.97, seed=0, device="cpu", **settings)
    model.learn(total_timesteps=args.steps)
    model.save(f"{args.task}-{args.algorithm}")
    trained = FunctionController(lambda seen: model.predict(seen, deterministic=True)[0])
    found = evaluate_with_baselines(task, options, trained, episodes=args.episodes)
    print_results({"trained": found, **found["baselines"]}, found["seed"])


if __name__ == "__main__":
    main()
