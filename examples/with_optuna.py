"""Search for settings with Optuna (extra `optuna`): each trial is one `flowsim train`, evaluated at its end.

python examples/with_optuna.py --trials 8
"""

import argparse
import json
import sys
from pathlib import Path

import optuna

from coupling.commands import run_command

TASK = "flowsim/LinearQuadratic-v0"  # move a point to the origin; the best return is known
SPARE = ["agent.hidden=[32, 32]", "workers.agents=4", "workers.processes=1"]


def main() -> None:
    """Maximise the mean return over the learning rate, the discount factor and the steps per gradient step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--folder", type=Path, default=Path("runs/optuna"))
    arguments = parser.parse_args()

    def mean_return(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("agent.learning_rate", 1e-5, 1e-2, log=True)
        gamma = trial.suggest_float("agent.gamma", 0.8, 0.99)
        ratio = trial.suggest_categorical("agent.env_steps_per_gradient_step", [1.0, 2.0, 4.0])
        settings = [
            f"env={TASK}",
            f"agent.learning_rate={rate:.3g}",
            f"agent.gamma={gamma:.3g}",
            f"agent.env_steps_per_gradient_step={ratio:g}",
            f"run.folder={arguments.folder}",
            f"run.name=trial-{trial.number}",
            f"run.steps={arguments.steps}",
            "run.evaluate_episodes=24",
        ]
        code = run_command(["train", *settings, *SPARE])
        if code == 130:  # Ctrl-C ends the search, too
            sys.exit(code)
        if code:
            raise optuna.TrialPruned(f"flowsim train ended with {code}")
        run = arguments.folder / f"trial-{trial.number}"
        evaluated = json.loads((run / "evaluation.json").read_text())
        return float(evaluated["after"]["mean_return"])

    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=0, n_startup_trials=4)
    )
    study.optimize(mean_return, n_trials=arguments.trials)
    print(
        f"best of {len(study.trials)}: trial {study.best_trial.number}, return {study.best_value:.3f}"
    )
    print(" ".join(f"{key}={value:.3g}" for key, value in study.best_params.items()))


if __name__ == "__main__":
    main()
