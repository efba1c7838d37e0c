"""The choice of threads and steps per turn for a single flow, with made-up timings."""

from flowsim.backend.cpu.program import TURN, Pace


def play(pace: Pace, seconds: dict[int, float], turns: int) -> list[tuple[int, float]]:
    """Take turns with the given time of a step by number of threads; return threads and time of each."""
    taken = []
    for _ in range(turns):
        threads, steps = pace.next_turn()
        pace.note(threads, steps * seconds[threads], steps)
        taken.append((threads, steps * seconds[threads]))
    return taken


def share_of(threads: int, taken: list[tuple[int, float]]) -> float:
    return sum(time for n, time in taken if n == threads) / sum(time for _, time in taken)


def test_turns_are_short_and_few_are_trials() -> None:
    for step in (1e-4, 6e-3, 0.03):
        taken = play(Pace(4), {4: step, 1: 2 * step}, 1000)
        assert max(time for _, time in taken) <= max(TURN, 2 * step) + 1e-9
        assert share_of(1, taken) < 0.05


def test_a_step_longer_than_a_turn_is_a_turn() -> None:
    taken = play(Pace(2), {2: 0.4, 1: 0.6}, 100)
    assert {time for _, time in taken} == {0.4, 0.6}
    assert share_of(1, taken) < 0.05


def test_one_thread_continues_alone_while_that_is_faster() -> None:
    """As with another busy process, and only until that ends."""
    pace = Pace(2)
    assert share_of(2, play(pace, {2: 2e-3, 1: 1e-3}, 1000)) < 0.1
    play(pace, {2: 0.5e-3, 1: 1e-3}, 20)
    assert share_of(1, play(pace, {2: 0.5e-3, 1: 1e-3}, 100)) < 0.05


def test_one_slow_turn_changes_nothing() -> None:
    pace = Pace(2)
    play(pace, {2: 0.6e-3, 1: 1e-3}, 100)
    play(pace, {2: 1.3e-3, 1: 1e-3}, 1)
    assert share_of(1, play(pace, {2: 0.6e-3, 1: 1e-3}, 100)) < 0.05
