"""Peers that ask for the status without end are not answered, and only for the rest of the second."""

from worker_by_hand import Clock

from coupling.service.status_limiter import OF_A_PEER, OF_ALL, StatusLimiter


def test_a_peer_is_ignored_after_too_many_requests_until_the_second_is_over():
    clock = Clock()
    limiter = StatusLimiter(clock)
    assert all(limiter.admits(b"loud") for _ in range(OF_A_PEER))
    assert limiter.ignores(b"loud")
    assert not limiter.ignores(b"quiet")
    clock.now += 1.0
    assert not limiter.ignores(b"loud")
    assert limiter.admits(b"loud")
    assert not limiter.ignores(b"loud")


def test_all_peers_together_are_answered_a_limited_number_of_times():
    clock = Clock()
    limiter = StatusLimiter(clock)
    answered = sum(limiter.admits(b"%d" % peer) for peer in range(2 * OF_ALL))
    assert answered == OF_ALL
    clock.now += 1.0
    assert limiter.admits(b"0")
