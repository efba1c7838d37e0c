"""How threads share the sweeps of one simulation: every block of rows is swept once, by any free thread."""

from typing import Any

import numpy as np
import pytest

from flowsim.backend.cpu.compiling import Task, divided, rows_of
from flowsim.backend.cpu.loops import BLOCKS_A_THREAD
from flowsim.backend.cpu.program import Program

STEPS, AT_ONCE, ROWS = 20_000, 1_000, 101


@divided
def add_one(task: Task, counts: Any) -> None:
    start, stop = rows_of(task, 0, counts.shape[1])
    for i in range(start, stop):
        counts[task.block, i] += 1


@divided
def add_what_the_one_before_left(task: Task, counts: Any, sums: Any) -> None:
    """Wrong unless the previous sweep has ended: each row adds up all blocks of its mirror-image row."""
    start, stop = rows_of(task, 0, counts.shape[1])
    for i in range(start, stop):
        for block in range(counts.shape[0]):
            sums[i] += counts[block, counts.shape[1] - 1 - i]


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_each_block_is_swept_once_before_the_next_sweep(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if threads share cores: 16 threads on two."""
    # no turn ends, so no trial begins: how many steps one thread does alone would depend on how busy the machine is
    monkeypatch.setattr("flowsim.backend.cpu.program.TURN", 1e9)
    blocks, active = BLOCKS_A_THREAD * threads, np.ones(1, np.bool_)
    counts, sums = np.zeros((blocks, ROWS), np.int64), np.zeros(ROWS, np.int64)

    def sweeps() -> None:
        add_one(active, counts)
        add_what_the_one_before_left(active, counts, sums)

    program = Program(sweeps, lambda: None, ROWS, threads)
    for _ in range(STEPS // AT_ONCE):
        program.repeat(AT_ONCE)
    np.testing.assert_array_equal(counts.sum(axis=0), STEPS)
    np.testing.assert_array_equal(sums, STEPS * (STEPS + 1) // 2)
    for block in range(blocks):
        start, stop = rows_of(Task(0, block, blocks, 0), 0, ROWS)
        np.testing.assert_array_equal(counts[block, start:stop], STEPS)
