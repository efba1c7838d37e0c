"""Records of a run during training: two tables and TensorBoard data."""

import errno
import functools
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coupling.files import Table
from coupling.run.folder import RunFolder, episodes_table, statistics_table
from coupling.run.recent import Ended, RecentEpisodes

if TYPE_CHECKING:
    from coupling.run.board import Board

__all__ = [
    "Rates",
    "RunLog",
    "Speedometer",
    "flatten",
    "log_evaluation",
]

STATISTICS_EVERY = 1000  # environment steps
EVALUATED = ("mean_return", "mean_length", "survival")
"""Numbers of an evaluation that TensorBoard shows as curves."""


@dataclass(frozen=True)
class Rates:
    """Rates over the last seconds, per second."""

    environment_steps: float
    gradient_steps: float
    round_trips: float


class Speedometer:
    """Rates of the counters over a sliding window of about ten seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int, int]] = deque(maxlen=12)

    def rates(self, environment_steps: int, gradient_steps: int, round_trips: int) -> Rates:
        """Record the counters and return their rates since the oldest record."""
        now = (time.monotonic(), environment_steps, gradient_steps, round_trips)
        self._samples.append(now)
        seconds, *counts = np.subtract(now, self._samples[0])
        return Rates(*(count / seconds if seconds > 0 else 0.0 for count in counts))


class RunLog:
    """Tables and TensorBoard data of a run; a resumed run removes what is newer than its checkpoint.

    Parameters
    ----------
    folder
        Folder of the run.
    environment_steps, episodes
        Steps and episodes of the checkpoint from which the run continues; rows beyond them are dropped.
    steps_planned
        Steps of the whole run.
    say
        Called with a message about damaged rows, which are kept in a copy of the file.

    Attributes
    ----------
    recent
        The latest episodes.
    episode_count
        Number of episodes that have ended so far.
    """

    def __init__(
        self,
        folder: RunFolder,
        environment_steps: int,
        episodes: int,
        steps_planned: int,
        say: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._statistics = statistics_table(folder)
        self._episodes = episodes_table(folder)
        kept = [
            row
            for row in _sound_rows(self._statistics, say)
            if float(row["environment_steps"]) <= environment_steps
        ]
        self._statistics.replace(kept)
        rows = _sound_rows(self._episodes, say)[:episodes]
        self._episodes.replace(rows)
        self._seconds_before = float(kept[-1]["seconds"]) if kept else 0.0
        self._began = time.monotonic()
        self._next = STATISTICS_EVERY * (environment_steps // STATISTICS_EVERY + 1)
        folder.tensorboard.mkdir(mode=0o700, exist_ok=True)
        self._folder, self._purge_step = folder, environment_steps or None
        self._ended: list[tuple[float, int]] = []  # episodes since the last row of statistics
        self.recent = RecentEpisodes(steps_planned)
        self._note(rows)
        self.episode_count = len(rows)

    def due(self, environment_steps: int) -> bool:
        """Return whether a row of statistics is due."""
        return environment_steps >= self._next

    def statistics(self, numbers: dict[str, float]) -> None:
        """Write one row of statistics; ``numbers`` contains ``environment_steps``."""
        environment_steps = int(numbers["environment_steps"])
        self._next = STATISTICS_EVERY * (environment_steps // STATISTICS_EVERY + 1)
        seconds = self._seconds_before + time.monotonic() - self._began
        first = {"environment_steps": environment_steps, "seconds": round(seconds, 3)}
        self._statistics.append([first | numbers])
        if self._ended:
            returns, lengths = np.mean(self._ended, axis=0)
            numbers = numbers | {"episodes/return": returns, "episodes/length": lengths}
            self._ended = []
        for name, value in numbers.items():
            if not np.isnan(value):  # NaN: mean of an empty set
                self._board.add(name, value, environment_steps)

    @functools.cached_property
    def _board(self) -> "Board":
        # imported with the first row, so that the start of a run does not wait for it
        from coupling.run.board import Board

        # TensorBoard would create it, and with it a deleted run folder, readable by everybody
        if not self._folder.tensorboard.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, os.strerror(errno.ENOENT), str(self._folder.tensorboard)
            )
        board = Board(self._folder.tensorboard, self._purge_step)
        settings = flatten(self._folder.config().model_dump(mode="json"))
        board.begin(settings, [f"evaluation/{name}" for name in EVALUATED] + ["episodes/return"])
        return board

    def episodes(self, rows: list[dict[str, Any]]) -> None:
        """Write one row per episode."""
        if rows:
            self._episodes.append(rows)
            self._note(rows)
            self._ended += [(row["return"], row["length"]) for row in rows]
            self.episode_count += len(rows)

    def _note(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            step, length = int(float(row["environment_steps"])), int(float(row["length"]))
            self.recent.add(Ended(step, float(row["return"]), length))

    def close(self, *, finished: bool) -> None:
        """Write TensorBoard's buffered data, and whether the training finished."""
        if "_board" in vars(self):
            self._board.end(finished=finished)
            self._board.close()


def log_evaluation(folder: RunFolder, evaluation: dict[str, Any], environment_steps: int) -> None:
    """Write an evaluation of the policy at ``environment_steps``, and those of the baselines, for TensorBoard."""
    from coupling.run.board import Board

    folder.tensorboard.mkdir(mode=0o700, exist_ok=True)
    board = Board(folder.tensorboard, None)
    results = {"evaluation": evaluation} | {
        f"baseline_{name}": result for name, result in evaluation.get("baselines", {}).items()
    }
    for name, result in results.items():
        for number in EVALUATED:
            board.add(f"{name}/{number}", result[number], environment_steps)
    board.close()


def flatten(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return nested settings as a flat dict of dotted names."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        inner = flatten(value, f"{before}{key}.") if isinstance(value, dict) else None
        flat |= {before + key: value} if inner is None else inner
    return flat


def _sound_rows(table: Table, say: Callable[[str], object]) -> list[dict[str, str]]:
    """Return the rows that are not damaged; the file is copied before damaged rows are left out."""
    damaged: list[int] = []
    rows = table.read(damaged)
    if damaged:
        say(
            f"{table.path} is damaged in line {damaged[0]}"
            f"{f' and {len(damaged) - 1} more' if len(damaged) > 1 else ''}: the rows are left out, and kept in "
            f"{table.set_aside()}"
        )
    return rows
