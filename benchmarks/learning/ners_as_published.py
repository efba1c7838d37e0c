"""Measure the spread of the scores of NERS as published: its networks in plain PyTorch, independent of an agent.

    python benchmarks/learning/ners_as_published.py  # two minutes; benchmarks/results/replay/ners_as_published.json

Layers, learning rate and steps per update are those of Oh et al. 2021, table B.1; the initial weights are PyTorch's.
The loss is -r mean(log sigma), where r is the change of the return, as in the authors' code
(github.com/youngmin0oh/NERS). The paper makes one update per evaluation: 500 in 500,000 steps of Hopper. The features
are independent and bounded by tanh; r is normal, either with its sign or its absolute value.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from benchmarks.studies import write_json  # noqa: E402
from coupling.origin import provenance  # noqa: E402

FEATURES, STEPS, AT_A_TIME, EXPONENT = 30, 30_000, 128, 0.5
UPDATES = (0, 100, 500)


def layers(*widths: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    modules: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(widths):
        modules += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


class Scores(nn.Module):
    """sigma = sigmoid f_s( f_l(x), mean f_g(x) )."""

    def __init__(self) -> None:
        super().__init__()
        self.local = layers(FEATURES, 256, 512, 256, 128)
        self.context = layers(FEATURES, 256, 512, 256, 128)
        self.score = layers(256, 256, 128, 64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of steps (n, features), shape (n,)."""
        context = self.context(x).mean(0, keepdim=True).expand(len(x), -1)
        return torch.sigmoid(self.score(torch.cat([self.local(x), context], 1)))[:, 0]


def spread(scores: torch.Tensor) -> dict[str, float]:
    """Return the 10 % and 90 % quantiles of the scores, and the effective share of a memory with these scores."""
    sigma = scores.detach().numpy().astype(float)
    p = sigma**EXPONENT
    low, high = np.quantile(sigma, (0.1, 0.9))
    share = p.sum() ** 2 / (len(p) * (p**2).sum())
    return {
        "low": round(low, 4),
        "high": round(high, 4),
        "effective_share": round(float(share), 5),
    }


def train(seed: int, rises: bool) -> list[dict[str, Any]]:
    """Return the spread of the scores after each number of updates in ``UPDATES``."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    memory = torch.tanh(torch.tensor(rng.standard_normal((STEPS, FEATURES)), dtype=torch.float32))
    network, found = Scores(), []
    adam = torch.optim.Adam(network.parameters(), lr=1e-4)
    for update in range(UPDATES[-1] + 1):
        if update in UPDATES:
            found.append({"updates": update, **spread(network(memory[:2000]))})
        change = rng.standard_normal()
        scores = network(memory[rng.integers(0, STEPS, AT_A_TIME)])
        loss = -(abs(change) if rises else change) * torch.log(scores + 1e-6).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return found


def main() -> int:
    """Train three seeds with each kind of r, print and store the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = ROOT / "benchmarks" / "results" / "replay" / "ners_as_published.json"
    parser.add_argument("--output", type=Path, default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for rises in (False, True):
        for seed in range(3):
            own = [
                {"return": "rises" if rises else "either", "seed": seed, **one}
                for one in train(seed, rises)
            ]
            for row in own:
                print(*(f"{key} {value}" for key, value in row.items()), sep=", ", flush=True)
            rows += own
    found = {**provenance(), "torch": torch.__version__, "rows": rows}
    write_json(options.output, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
