"""Every worker is told when the learner ends, including late and reconnecting ones."""

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


def test_farewell_waits_for_workers_not_heard_since_a_restart(served, farewell):
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


def test_time_waited_is_reported_to_the_caller(served, clock):
    _, server, peer = served
    worker = peer()  # a peer without a reference may close its connection at any moment
    worker.join()
    seconds = []

    def waiting(passed):
        seconds.append(passed)
        clock.now += 4.0

    server.close("the end", 12.0, waiting)
    # the worker was told and does not answer: the server waits a quarter of the time for it
    assert seconds == [0.0]
    worker.socket.close()


def test_farewell_gives_up_on_a_worker_that_never_returns(served, clock):
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
    # slots kept for the workers of the previous learner expire after twice dead_after, that is 6 s
    assert seconds == [0.0, 4.0]


def test_farewell_reaches_a_worker_that_reconnects(served, farewell):
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


def test_farewell_waits_for_a_worker_told_over_an_abandoned_connection(served, farewell):
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


def test_farewell_does_not_wait_for_dead_or_departed_peers(served, farewell):
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
