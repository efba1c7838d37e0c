"""Train the agents that are shipped with the package, and write their cards.

    python benchmarks/learning/agents.py train sketch   # train in runs/agents/sketch (resumable), then ship
    python benchmarks/learning/agents.py ship wake      # ship an agent that is trained already
    python benchmarks/learning/agents.py evaluate wake  # re-evaluate a shipped agent on the current held-out episodes
    python benchmarks/learning/agents.py page           # fills in docs/agents.md

The agent `vracer` is a training of figure 6 (benchmarks/learning/figure6.py); the others are runs of
`flowsim train`. The working tree must be clean, because the card names the commit.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.evidence import clean_commit  # noqa: E402
from benchmarks.learning.suites.plan import Job, jobs_of, read_plan  # noqa: E402
from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS, current_origin, read  # noqa: E402
from coupling.errors import RunError  # noqa: E402
from coupling.evaluation.evaluate import PolicyController, evaluate, evaluate_with_baselines  # noqa: E402
from coupling.evaluation.pool import EvaluationPool  # noqa: E402
from coupling.files import write_atomically  # noqa: E402
from coupling.run.agents import describe_agents  # noqa: E402
from coupling.run.folder import RunFolder  # noqa: E402
from coupling.run.policies import write_agent  # noqa: E402
from coupling.run.tables import with_fluctuation  # noqa: E402
from coupling.settings.config import RunConfig, dump_config  # noqa: E402
from coupling.worker.environments import describe_task  # noqa: E402
from rl_agent import Learner, Policy  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED  # noqa: E402

AGENTS = ROOT / "coupling" / "agents"
FLOWSIM = str(Path(sys.executable).parent / "flowsim")
RUNS = {
    "cavity": ("open_cavity/quick", "run.evaluate_episodes=10"),
    "fine": (
        "d_cylinder_wake/quick", "env_options.cells_per_diameter=64", "env_options.start_range=paper",
        "run.steps=20000", "run.select_episodes=0",
    ),
    "heaters": ("rayleigh_benard/quick", "run.evaluate_episodes=10"),
    "foil": ("pitching_foil/quick",),
    "jets": ("cylinder_jets/quick",),
    "pendulum": ("mujoco/inverted_double_pendulum", "run.steps=200000", "run.evaluate_episodes=48"),
    "sketch": (
        "d_cylinder_wake/sketch", "agent=sac", "agent.gamma=0.97", "agent.learning_starts=1024", "run.steps=40000",
        "run.evaluate_episodes=48", "workers.processes=1",
    ),
    "pinball": ("fluidic_pinball/quick",),
    "pressure": ("square_jets/memory", "run.steps=96000"),
    "rotating": ("rotating_cylinder/quick",),
    "square": ("square_jets/wake",),
    "step": ("backward_step/quick",),
    "swimmer": ("elliptical_swimmer/default", "run.evaluate_episodes=48"),
    "wake": (
        "d_cylinder_wake/quick", "env_options.start_range=paper", "run.steps=120000", "run.evaluate_episodes=96",
    ),
}  # fmt: skip
"""Preset and overrides of each run, seed 0; the drag-reduction runs are those of benchmarks/learning/drag_tasks.py."""
JOBS = {
    "vracer": (
        "--suite", "long", "--methods", "V-RACER, a horizon that grows, separate trunks, half by episodes",
        "--seeds", "1",
    ),
}  # fmt: skip
"""Arguments of benchmarks/learning/figure6.py that select one training each, seed 0."""
LIMITS = {
    "cavity": "Trained at 80 cells per L; on this grid the modes of the flow grow more slowly than published.",
    "fine": "Trained at 64 cells per D (the paper: 128), from the paper's initial states; now the preset `fine`.",
    "heaters": "Trained at 32 cells per H with two worker processes; the seeds on the task's page are other trainings.",
    "foil": "Trained at 32 cells per chord (4.8 cells in the thickest part); the first seed on the task's page.",
    "jets": "Trained at 20 cells per D (drag 4 % above the literature); the first seed on the task's page.",
    "pendulum": "MuJoCo's own task; needs the extra `mujoco`. Only one seed was trained.",
    "pinball": "Trained at 12 cells per D (drag 3 % above that of a finer grid); the first seed on the task's page.",
    "pressure": "Trained at 20 cells per D with four base pressures; the first of three trainings and the best.",
    "rotating": "Trained at 12 cells per D; the first seed on the task's page.",
    "sketch": "Trained at 8 cells per D between walls, which does not resolve the wake; a few minutes on one core.",
    "square": "Trained at 20 cells per D with 64 probes in the wake; the first seed on the task's page.",
    "step": "Trained at 20 cells per h; the first seed on the task's page; linear feedback does better.",
    "swimmer": "Trained in still water in a box with walls, at 32 cells per L; the first of three seeds.",
    "vracer": "Trained at 16 cells per D (the paper: 128), with the paper's range of initial conditions; one seed.",
    "wake": "Trained at 16 cells per D (the paper: 128) from the paper's initial states; the best of three trainings.",
}
"""Resolution, conditions and seeds of each training, as stated on its card."""


def ship(run: RunFolder, folder: Path) -> None:
    """Replace the folder's content with settings, policy, evaluation, episodes and origin of a finished run.

    Raises
    ------
    RunError
        If the run has no evaluation.
    """
    if not run.evaluation.exists():
        raise RunError(f"run {run.path} was not evaluated: train it with run.evaluate_episodes")
    shutil.rmtree(folder, ignore_errors=True)
    write_agent(run, folder)


def ship_job(job: Job, results: Path, work: Path, folder: Path) -> None:
    """Ship a training of figure 6 like a run, but without its training episodes.

    Its result lacks evaluations of the untrained policy and the baselines; they are done here, on the episodes on
    which the trained policy was evaluated.

    Raises
    ------
    RunError
        If the training is not complete.
    """
    policy = work / job.name / "checkpoint"
    done = next((row for row in read(results) if row["name"] == job.name), None)
    if done is None or not policy.exists():
        raise RunError(
            f"{results} has no training {job.name}, or {policy} is not there: train it first"
        )
    content = {
        "env": job.env, "env_options": job.env_options, "training_options": job.training_options,
        "agent": job.agent, "workers": {"agents": job.agents},
        "run": {"steps": done["steps"], "seed": job.seed, "evaluate_episodes": job.evaluate_episodes},
    }  # fmt: skip
    config, task = RunConfig.model_validate(content), describe_task(job.env, job.env_options)
    untrained = Learner(
        config.agent, task.observation_space, task.action_space, agents=job.agents, seed=job.seed
    )
    beginner = PolicyController(untrained.policy(), deterministic=True, seed=job.seed)
    others = evaluate_with_baselines(
        job.env, job.env_options, beginner, episodes=job.evaluate_episodes, seed=EVALUATION_SEED
    )
    baselines, before = (
        others.pop("baselines"),
        {key: value for key, value in others.items() if key != "task"},
    )
    evaluation = {
        "before": before,
        "drawing": done["evaluation"]["drawing"],
        "after": {"task": job.env} | done["evaluation"]["deterministic"] | {"baselines": baselines},
    }
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = RunFolder(folder)
    Policy.load(policy).save(kept.checkpoint)
    write_atomically(kept.config_file, dump_config(config).encode())
    write_atomically(kept.evaluation, json.dumps(evaluation, indent=1).encode())
    origin = {"epoch": 0, "environment_steps": 0} | {
        key: done[key] for key in ("commit", "python", "machine", "versions")
    }
    write_atomically(kept.starts, (json.dumps(origin) + "\n").encode())


def job_of(name: str) -> Job:
    """Return the training of figure 6 from which an agent is shipped."""
    _, suite, _, method, *_ = JOBS[name]
    jobs = jobs_of(suite, read_plan(ROOT / "benchmarks" / "learning" / "figure6.yaml")[suite])
    return next(job for job in jobs if job.method == method and job.seed == 0)


def train(name: str) -> int:
    """Train an agent, or continue its training, and ship it; return the exit code."""
    run = Path("runs") / "agents" / name
    if name in JOBS:
        command = [sys.executable, "benchmarks/learning/figure6.py", "run", *JOBS[name]]
    elif not (ROOT / run / "config.yaml").exists():
        # an agent is shipped with its evaluation; a later override takes precedence
        evaluated = [RUNS[name][0], "run.evaluate_episodes=10", *RUNS[name][1:]]
        command = [FLOWSIM, "train", *evaluated, f"run.name={name}", "run.folder=runs/agents"]
    else:
        command = [FLOWSIM, "resume", str(run)]
    ended = subprocess.run(command, cwd=ROOT).returncode
    return ended or ship_by_name(name)


def ship_by_name(name: str) -> int:
    """Ship a trained agent; return 0."""
    if name in JOBS:
        ship_job(
            job_of(name), RESULTS / "figure6.parquet", ROOT / "runs" / "figure6", AGENTS / name
        )
    elif (of_task := ROOT / "runs" / f"{RUNS[name][0].replace('/', '_')}_0").exists():
        ship(RunFolder.find(of_task), AGENTS / name)
    else:
        ship(RunFolder.find(ROOT / "runs" / "agents" / name), AGENTS / name)
    for file in (AGENTS / name).iterdir():
        file.chmod(0o644)  # the package may be used by another user than the one who installed it
    return 0


def evaluate_again(name: str, origin: dict[str, Any]) -> int:
    """Evaluate a shipped agent, its untrained policy and the baselines on the current held-out episodes; return 0.

    Parameters
    ----------
    name
        Name of the agent.
    origin
        Commit, versions and machine, stored with the results.
    """
    folder = RunFolder(AGENTS / name)
    config, episodes = folder.config(), _evaluation(folder)["after"]["episodes"]
    task = describe_task(config.env, config.env_options)
    spaces = task.observation_space, task.action_space
    numbers: dict[str, Any] = {
        "agents": config.workers.agents,
        "seed": config.run.seed,
        "agents_per_env": task.agents_per_env,
    }
    untrained = Learner(config.agent, *spaces, **numbers)
    trained = Policy.load(folder.checkpoint)
    found = {}
    with EvaluationPool(config.env, config.env_options) as pool:
        for key, policy, deterministic in (
            ("before", untrained.policy(), True),
            ("drawing", trained, False),
        ):
            controller = PolicyController(policy, deterministic=deterministic, seed=EVALUATION_SEED)
            evaluation = evaluate(
                config.env, config.env_options, controller, episodes=episodes, pool=pool
            )
            found[key] = evaluation.summary() | {"seed": EVALUATION_SEED}
        controller = PolicyController(trained, deterministic=True, seed=EVALUATION_SEED)
        found["after"] = evaluate_with_baselines(
            config.env, config.env_options, controller, episodes=episodes, seed=EVALUATION_SEED, pool=pool
        )  # fmt: skip
    found["evaluated"] = origin
    write_atomically(folder.evaluation, json.dumps(found, indent=1).encode())
    folder.evaluation.chmod(0o644)
    return 0


def _evaluation(folder: RunFolder) -> dict[str, Any]:
    """Read the evaluation of an agent."""
    return dict(json.loads(folder.evaluation.read_text()))


def episodes_of(evaluation: dict[str, Any]) -> str:
    """Return a description of the episodes on which an agent was evaluated."""
    after = evaluation["after"]
    of = (
        f"evaluation seed {after['seed']}"
        if "seed" in after
        else "the numbering before 26 November 2026"
    )
    return f"held-out episodes 0 to {after['episodes'] - 1} of {of}"


def cards() -> str:
    """Return a card for each agent, in Markdown."""
    parts = []
    for row in describe_agents(AGENTS):
        name = str(row["agent"])
        folder = AGENTS / name
        start = json.loads((folder / "starts.jsonl").read_text().splitlines()[0])
        evaluation = json.loads((folder / "evaluation.json").read_text())
        words = (
            ["python", "benchmarks/learning/figure6.py", "run", *JOBS[name]]
            if name in JOBS
            else ["flowsim", "train", *RUNS[name]]
        )
        columns = ["return", *(evaluation["after"].get("measures") or ("survival", "actions"))]
        lines = [
            f"## {name}\n",
            f"`{shlex.join(words)}`, seed {row['seed']}, commit `{start['commit'][:12]}`, "
            f"{row['steps']:,} actions with `{row['learner']}` on `{row['env']}`.",
            f"{LIMITS[name]}\n",
            f"| {episodes_of(evaluation)} | {' | '.join(columns)} |",
            "| --- |" + " --: |" * len(columns),
        ]
        policies = {
            "mean action": evaluation["after"], "sampled actions": evaluation.get("drawing"),
            "before training": evaluation["before"],
            **evaluation["after"]["baselines"],
        }  # fmt: skip
        for label, result in policies.items():
            if result is None:  # left out to save simulation
                continue
            # adding 0.0 turns -0.0 into 0.0
            mean, low, high = (round(x, 1) + 0.0 for x in (result["mean_return"], *result["ci95"]))
            cells = [label, f"{mean:.1f} [{low:.1f}, {high:.1f}]"]
            if measures := result.get("measures"):
                cells += [with_fluctuation(of["mean"], of["rms"]) for of in measures.values()]
            else:
                cells += [f"{100 * result['survival']:.0f} %", f"{result['mean_length']:.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def main() -> int:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("train", "ship", "evaluate", "page"))
    parser.add_argument("names", nargs="*", choices=[*RUNS, *JOBS, []], help="all when left out")
    options = parser.parse_args()
    if options.command == "page":
        fill_in(ROOT / "docs" / "agents.md", "learning/agents", "cards", cards())
        return 0
    names = options.names or [*RUNS, *JOBS]
    if options.command == "ship":
        return max(map(ship_by_name, names))
    clean_commit(ROOT)
    if options.command == "evaluate":
        origin = current_origin()  # now, because the first result changes the working tree
        return max(evaluate_again(name, origin) for name in names)
    return max(map(train, names))


if __name__ == "__main__":
    sys.exit(main())
