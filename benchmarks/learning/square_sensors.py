"""Compare what base pressures of the square, with and without a memory, and probes in its wake tell a controller.

    python benchmarks/learning/square_sensors.py measure   # a quarter of an hour on one core
    python benchmarks/learning/square_sensors.py page      # the table in docs/square_jets.md

The shipped agent `square`, which observes 64 probes in the wake, acts with sampled actions while the base pressures are
recorded as well. From the last measurements and actions of each set of sensors, a linear model and an MLP predict the
mean action of the agent. The explained variance on other episodes bounds how well a controller with these sensors can
imitate the agent; another controller may need less. Raw results: benchmarks/results/square_sensors.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.pages import fill_in  # noqa: E402
from benchmarks.studies import RESULTS as STUDIES  # noqa: E402
from benchmarks.studies import current_origin, write_json  # noqa: E402
from cases.flow_env import FlowVectorEnv  # noqa: E402
from cases.sensors import PastActions, Probes, Sensor  # noqa: E402
from cases.square_jets.env import CENTER, WAKE, SquareJets, base_points  # noqa: E402
from coupling.evaluation.result import bootstrap_interval  # noqa: E402
from coupling.run.folder import RunFolder  # noqa: E402
from coupling.run.policies import load_controller  # noqa: E402
from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed  # noqa: E402

RESULTS = STUDIES / "square_sensors.json"
PAGE = ROOT / "docs" / "square_jets.md"
AGENT = ROOT / "coupling" / "agents" / "square"
FITTED, VALIDATED, TESTED = 24, 8, 16
"""Episodes to fit the models, to select the penalty or the stopping time, and to measure the explained variance."""
PENALTIES = (1e-4, 1e-2, 1.0, 1e2, 1e4)
GRADIENT_STEPS, BATCH, HIDDEN = 4000, 256, 64

Array = NDArray[np.float64]


class Inputs(NamedTuple):
    """Inputs of a model: the sensors, their number, and how many past measurements and actions."""

    sensors: str
    pressures: int
    frames: int


PLAN = (
    Inputs("wake", 64, 1),
    Inputs("wake", 64, 6),
    *(Inputs("base", pressures, frames) for pressures in (4, 64) for frames in (1, 6, 14, 27)),
)


class AllSensors(SquareJets):
    """The square with both sets of sensors: the probes in the wake, then the base pressures."""

    def sensors(self) -> list[Sensor]:
        """Return the 128 pressures and the last action."""
        base = base_points(64, self.options.cells_per_diameter)
        return [Probes(np.array([*WAKE, *base]) + CENTER, "pressure"), PastActions(1)]


class AllSensorsVectorEnv(FlowVectorEnv):
    """A batch of these flows."""

    task_class = AllSensors


def record() -> tuple[Array, Array]:
    """Play the episodes with sampled actions; return observations (actions, episodes, 129) and mean actions."""
    folder = RunFolder.find(AGENT)
    sampled, mean = (
        load_controller(folder, deterministic=kind, seed=EVALUATION_SEED) for kind in (False, True)
    )
    options = folder.config().env_options | {"sensors": "base"}
    episodes = FITTED + VALIDATED + TESTED
    env: Any = AllSensorsVectorEnv(episodes, **options)
    seen, _ = env.reset(
        seed=[episode_seed(Purpose.TRAINING, EVALUATION_SEED, n) for n in range(episodes)]
    )
    observations, actions = [], []
    for controller in (sampled, mean):
        controller.reset(episodes)
    for number in range(options["episode_actions"]):
        probes = np.concatenate([seen[:, :64], seen[:, 128:]], axis=1)
        observations.append(seen.astype(np.float64))
        actions.append(np.asarray(mean(probes), np.float64)[:, 0])
        seen, *_ = env.step(np.clip(sampled(probes), -1.0, 1.0).astype(np.float32))
        if number % 20 == 19:
            print(f"{number + 1} of {options['episode_actions']} actions", flush=True)
    env.close()
    return np.array(observations), np.array(actions)


def inputs(observations: Array, chosen: Inputs) -> Array:
    """Return the inputs of a model, shape (actions, episodes, n); before an episode its first values are repeated."""
    first = 0 if chosen.sensors == "wake" else 64
    columns = first + np.linspace(0, 63, chosen.pressures).round().astype(int)
    now = observations[:, :, [*columns, 128]]
    padded = np.concatenate([np.repeat(now[:1], chosen.frames - 1, axis=0), now])
    last = chosen.frames - 1
    return np.concatenate(
        [padded[last - k : last - k + len(now)] for k in range(chosen.frames)], -1
    )


def explained(found: Array, true: Array) -> float:
    """Return the explained share of the variance."""
    return float(1.0 - ((found - true) ** 2).sum() / ((true - true.mean()) ** 2).sum())


def linear(fit: tuple[Array, Array], check: tuple[Array, Array], test: Array) -> Array:
    """Return the predictions of a linear model, whose penalty on squared weights is selected on `check`."""
    x, y = fit
    middle = y.mean()
    models = [
        np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ (y - middle))
        for penalty in PENALTIES
    ]
    best = max(models, key=lambda model: explained(check[0] @ model + middle, check[1]))
    return np.asarray(test @ best + middle)


def mlp(fit: tuple[Array, Array], check: tuple[Array, Array], test: Array) -> Array:
    """Return the predictions of an MLP of two layers, at the step at which it was best on `check`."""
    torch.manual_seed(0)
    x, y, xc, xt = (torch.tensor(part, dtype=torch.float32) for part in (*fit, check[0], test))
    net = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.Tanh(),
        torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=1e-2)
    best, found = -np.inf, np.zeros(len(test))
    for step in range(GRADIENT_STEPS):
        batch = torch.randint(len(x), (BATCH,))
        loss = ((net(x[batch])[:, 0] - y[batch]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            with torch.no_grad():
                score = explained(net(xc)[:, 0].numpy(), check[1])
                if score > best:
                    best, found = score, net(xt)[:, 0].numpy()
    return np.asarray(found, np.float64)


def measure(observations: Array, actions: Array, chosen: Inputs) -> dict[str, Any]:
    """Fit both models to some inputs; return the explained variance on the test episodes with its interval."""
    x = inputs(observations, chosen)
    x = (x - x[:, :FITTED].mean((0, 1))) / (x[:, :FITTED].std((0, 1)) + 1e-9)
    parts = np.split(np.arange(x.shape[1]), [FITTED, FITTED + VALIDATED])
    fit, check, test = (
        (x[:, part].reshape(-1, x.shape[-1]), actions[:, part].reshape(-1)) for part in parts
    )
    row: dict[str, Any] = chosen._asdict()
    for model in (linear, mlp):
        found = model(fit, check, test[0]).reshape(-1, TESTED)
        true = actions[:, parts[2]]
        each = [explained(found[:, n], true[:, n]) for n in range(TESTED)]
        row[model.__name__] = {
            "explained": explained(found, true),
            "interval": list(bootstrap_interval(np.array(each))),
        }
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the Markdown table of the page."""
    lines = [
        "| sensors | last measurements and actions | linear model | MLP |",
        "| --- | --: | --: | --: |",
    ]
    for row in rows:
        numbers = (
            f"{row[model]['explained']:.2f} [{row[model]['interval'][0]:.2f}, {row[model]['interval'][1]:.2f}]"
            for model in ("linear", "mlp")
        )
        what = "probes in the wake" if row["sensors"] == "wake" else "base pressures"
        lines.append(
            f"| {row['pressures']} {what} | {row['frames']} | " + " | ".join(numbers) + " |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("measure", "page"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # the networks are too small for more
    if options.command == "measure":
        origin = current_origin()
        observations, actions = record()
        rows = []
        for chosen in PLAN:
            rows.append(measure(observations, actions, chosen))
            print(json.dumps(rows[-1]), flush=True)
        kept = {"agent": AGENT.name, "episodes": [FITTED, VALIDATED, TESTED], "rows": rows} | origin
        write_json(RESULTS, kept)
    fill_in(
        PAGE, "learning/square_sensors", "sensors", table(json.loads(RESULTS.read_text())["rows"])
    )


if __name__ == "__main__":
    main()
