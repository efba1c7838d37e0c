"""Measure how uneven a sampler's probabilities are at the end of a training, from its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.suites.plan import Job
from rl_agent.learner import Learner
from rl_agent.saving.checkpoint import read_checkpoint

__all__ = ["draws_of", "read_draws", "table_of_draws"]


def read_draws(jobs: Iterable[Job], work: Path) -> dict[str, dict[str, Any]]:
    """Return ``draws_of`` each job's checkpoint by the job's name, skipping jobs without one and uniform samplers."""
    places = {job.name: work / job.name / "checkpoint" for job in jobs if job.agent is not None}
    found = {name: draws_of(place) for name, place in places.items() if place.exists()}
    return {name: draws for name, draws in found.items() if draws is not None}


def draws_of(checkpoint: Path) -> dict[str, Any] | None:
    """Return how uneven the sampling probabilities in the memory are, or None for a sampler that is uniform by design.

    Returns
    -------
    dict
        ``updates`` of the sampler's network (0 without one), the 10 %, 50 % and 90 % quantiles of the ``scores`` of the
        steps that have been sampled, the share ``not_drawn_yet`` of steps that have not, and the ``effective_share`` of
        the memory (``rl_agent.replay.samplers.sampler.effective_share``).
    """
    learner = Learner.load(checkpoint)
    share = learner.sampler.effective_share(learner.memory.storage)
    if share is None:
        return None
    arrays, _ = read_checkpoint(checkpoint, lambda name: name.startswith("sampler/"))
    scores = arrays["sampler/score" if "sampler/score" in arrays else "sampler/error"]
    scores = scores[learner.memory.storage.indices()]
    has_network = "sampler/network/steps" in arrays
    # steps added last have score 0, steps not yet scored by a network have 1; PER's errors may equal 1
    is_new = np.isin(scores, (0.0, 1.0)) if has_network else scores == 0.0
    return {
        "updates": int(arrays["sampler/network/steps"]) if has_network else 0,
        "scores": [round(float(q), 5) for q in np.quantile(scores[~is_new], (0.1, 0.5, 0.9))],
        "not_drawn_yet": round(float(is_new.mean()), 5),
        "effective_share": round(share, 5),
    }


def table_of_draws(draws: dict[str, dict[str, Any]], jobs: Iterable[Job]) -> list[str]:
    """Return a Markdown table with a row for each task and method, over its seeds."""
    lines = [
        "| task | method | trainings | updates of the network | score, 10 % | 90 % | never sampled "
        "| effective share of the memory |",
        "| --- |" + " --- |" + " --: |" * 6,
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job in jobs:
        if job.name in draws:
            groups.setdefault((job.task, job.method), []).append(draws[job.name])
    for (task, method), own in groups.items():
        cells = (
            _span([one["updates"] for one in own], "d"),
            _span([one["scores"][0] for one in own], ".3f"),
            _span([one["scores"][2] for one in own], ".3f"),
            _span([one["not_drawn_yet"] for one in own], ".3f"),
            _span([one["effective_share"] for one in own], ".3f"),
        )
        lines.append(f"| {task} | {method} | {len(own)} | " + " | ".join(cells) + " |")
    return lines


def how_uneven(draws: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return quantities over all trainings: for NERS and ERO, and for PER with vector and image observations."""
    names = {
        kind: [name for name in draws if f"_{kind}" in name] for kind in ("ners", "ero", "per")
    }
    learned = [draws[name] for name in (*names["ners"], *names["ero"])]
    images = [draws[name]["effective_share"] for name in names["per"] if name.startswith("rainbow")]
    vectors = [
        draws[name]["effective_share"] for name in names["per"] if not name.startswith("rainbow")
    ]
    spread = max(one["scores"][2] - one["scores"][0] for one in learned)
    return [
        (
            "NERS and ERO: largest difference of the 90 % and 10 % quantiles of the scores of a training",
            f"{spread:.3f}",
        ),
        (
            "NERS and ERO: effective share of the memory",
            _span([one["effective_share"] for one in learned], ".2f"),
        ),
        (
            "NERS and ERO: updates of the score network",
            _span([one["updates"] for one in learned], "d"),
        ),
        (
            "NERS and ERO: steps never sampled",
            _span([one["not_drawn_yet"] for one in learned], ".1%"),
        ),
        ("PER: effective share of the memory, vector observations", _span(vectors, ".2f")),
        ("PER: effective share of the memory, image observations", _span(images, ".2f")),
    ]


def _span(values: list[Any], form: str) -> str:
    """Return the range of the values, or a single value if both ends are formatted alike."""
    return " to ".join(dict.fromkeys(f"{value:{form}}" for value in (min(values), max(values))))
