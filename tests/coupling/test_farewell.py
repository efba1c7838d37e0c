"""A learner that ends: every worker hears of it, late ones and those that connect again, too."""

import socket
import threading

import pytest
import zmq


@pytest.fixture
def farewell():
    """Close a server that waits for its workers, as another thread does; all have left before the test is over."""
    threads = []

    def begin(server, waiting=lambda passed: None):
        args = ("the end", 60.0, waiting)
        threads.append(threading.Thread(target=server.close, args=args, daemon=True))
        threads[-1].start()

    yield begin
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_the_farewell_waits_for_workers_that_a_restarted_learner_has_not_heard(served, farewell):
    _, server, peer = served
    worker, newcomer, stranger = peer(), peer(), peer()
    worker.join()
    worker.reset()
    server.restore(server.exchange.notes())
    server.replay([])
    farewell(server)
    stranger.send(b"nothing that anybody understands")
    assert newcomer.is_dismissed(newcomer.hello(slot=1))
    assert worker.is_dismissed(worker.beat())
    for each in (worker, newcomer, stranger):
        each.socket.close()


def test_who_is_waited_for_is_told_to_the_caller(served, clock):
    _, server, peer = served
    worker = peer()  # one that nobody holds closes its connection at a moment of its own
    worker.join()
    seconds = []

    def waiting(passed):
        seconds.append(passed)
        clock.now += 4.0

    server.close("the end", 12.0, waiting)
    # the worker was told and does not answer, which is waited for a quarter of the time
    assert seconds == [0.0]
    worker.socket.close()


def test_a_worker_that_never_comes_back_is_waited_for_within_bounds(served, clock):
    _, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    server.restore(server.exchange.notes())
    server.replay([])
    seconds = []

    def waiting(passed):
        seconds.append(passed)
        clock.now += 4.0

    server.close("the end", 12.0, waiting)
    # what is kept for the workers of the learner before ends after two times dead_after, that is 6 s
    assert seconds == [0.0, 4.0]


def test_the_farewell_reaches_a_worker_that_connects_anew_meanwhile(served, farewell):
    _, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    heart = worker.socket.context.socket(zmq.DEALER)
    heart.connect(server.endpoint)
    heart.send(worker.beat())
    worker.serve_until(lambda: heart.poll(5))
    message = worker.step_message()
    farewell(server)
    worker.connect_anew(heart.context)
    assert worker.is_dismissed(message)
    worker.socket.close()
    heart.close()


def test_the_farewell_waits_for_a_worker_that_was_told_over_a_connection_that_it_gave_up(
    served, farewell
):
    _, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    message = worker.step_message()
    context = worker.socket.context
    worker.socket.close()
    rounds = threading.Semaphore(0)
    farewell(server, lambda passed: rounds.release())
    for _ in range(10):  # meanwhile it has noticed that nobody is connected
        assert rounds.acquire(timeout=60)
    worker.socket = context.socket(zmq.DEALER)
    worker.socket.connect(server.endpoint)
    assert worker.is_dismissed(message)
    worker.socket.close()


def test_the_farewell_waits_for_nobody_who_is_dead_or_went_away(served, farewell):
    _, server, peer = served
    worker = peer()
    worker.join()
    worker.reset()
    server.restore(server.exchange.notes())
    server.replay([])
    server.liveness.drop(0)
    worker.socket.close()
    host, port = server.endpoint.removeprefix("tcp://").split(":")
    socket.create_connection((host, int(port))).close()  # without a handshake
    farewell(server)  # the clock stands still: it would never end by itself
