"""Signals that ask a process to end, in real processes: SLURM's warning, a closed terminal, a scheduler."""

import os
import pty
import signal
import subprocess
import sys

import pytest
import typer
from shell import GUARD, ROOT, wait_until, workers_of

from coupling.commands.console import reporting_errors
from coupling.signals import ENDING, Interrupted, deaf_streams, interrupting, number_of
from rl_agent.learner import Learner


def steps_in(shell):
    return shell.status().get("environment_steps", 0)


def stopped_by(shell, process, number):
    """Send a signal to a learner that learns, and check how it ends; return its stderr and the steps it kept."""
    before = steps_in(shell)
    wait_until(lambda: shell.status()["state"] == "training" and steps_in(shell) > before + 100)
    seen = steps_in(shell)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=GUARD)
    assert process.returncode == 128 + number, stderr
    last = stderr.strip().splitlines()[-1]
    assert "with a checkpoint; continue with `flowsim resume" in last
    assert "Traceback" not in stderr
    assert not workers_of(shell.run_folder)
    assert shell.status()["state"] == "stopped"
    assert not (shell.run_folder / "connection.json").exists()
    learner = Learner.load(shell.run_folder / "checkpoint.npz")
    assert learner.environment_steps >= seen
    return stderr, learner.environment_steps


def test_ctrl_c_during_startup_gives_no_traceback(tmp_path):
    """It arrives in the import of typer here, which stands for any import at startup."""
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError\n"
    )
    places = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "flowsim", "status", "run"],
        env=os.environ | {"PYTHONPATH": places}, capture_output=True, text=True, timeout=GUARD,
        restore_signals=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.slow
def test_each_signal_stops_a_training_that_can_be_resumed(shell):
    """Train, resume and serve, the last with a worker that is told to end itself."""
    preset = shell.preset(run={"steps": 10**6}, env_options={"step_seconds": 0.001})
    process = shell.start("train", preset)
    wait_until(shell.status)
    _, steps = stopped_by(shell, process, signal.SIGUSR1)
    process = shell.start("resume", "runs/run")
    wait_until(lambda: shell.status()["state"] == "training")
    stderr, more = stopped_by(shell, process, signal.SIGHUP)
    assert f"from its checkpoint at {steps} environment steps" in stderr
    assert more > steps

    process = shell.start("serve", "runs/run")
    connection = shell.run_folder / "connection.json"
    wait_until(connection.exists)
    workers = [shell.start("worker", "--connect", str(connection)) for _ in range(2)]
    wait_until(
        lambda: (
            shell.status()["state"] == "training"
            and len(shell.status()["workers"]) == 2  # one that is still waiting says no goodbye
            and steps_in(shell) > more
        )
    )
    workers[0].send_signal(signal.SIGUSR1)
    _, said = workers[0].communicate(timeout=GUARD)
    assert workers[0].returncode == 128 + signal.SIGUSR1, said
    assert "ended by SIGUSR1; run the same command to restart it" in said
    # the workers of before died with their learner: their places are free at once, not after two times 120 s
    assert "reserves the place" not in said
    assert "Traceback" not in said
    stderr, _ = stopped_by(shell, process, signal.SIGTERM)
    assert "left: the worker was stopped" in stderr
    workers[1].communicate(timeout=GUARD)
    assert workers[1].returncode == 0


def test_a_closed_terminal_stops_a_training_with_a_checkpoint(shell):
    """All output fails then, and the shell's SIGHUP comes on top of the kernel's."""
    preset = shell.preset(run={"steps": 10**6}, env_options={"step_seconds": 0.001})
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        shell.command("train", preset),
        cwd=shell.folder,
        env=shell.environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    shell.started.append(process)
    os.close(terminal)
    wait_until(lambda: os.read(master, 4096) and steps_in(shell) > 100)
    os.close(master)  # the kernel tells the session only if it is its terminal
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)
    process.wait(timeout=GUARD)
    assert process.returncode == 128 + signal.SIGHUP
    assert shell.status()["state"] == "stopped"
    assert Learner.load(shell.run_folder / "checkpoint.npz").environment_steps > 100


@pytest.mark.slow
def test_run_outlives_its_terminal_under_nohup_or_disown(shell):
    """As by `nohup`, whose SIGHUP stays ignored, or by `disown`, where the writes fail and no signal comes."""
    preset = shell.preset(run={"steps": 4000}, env_options={"step_seconds": 0.001})
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        shell.command("train", preset),
        cwd=shell.folder,
        env=shell.environment,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    shell.started.append(process)
    os.close(terminal)
    wait_until(lambda: os.read(master, 4096) and steps_in(shell) > 100)
    os.close(master)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=GUARD) == 0
    assert shell.status()["state"] == "finished"


def test_interrupted_first_evaluation_says_how_to_continue(shell):
    preset = shell.preset(
        run={"steps": 200, "evaluate_episodes": 500}, env_options={"step_seconds": 0.01}
    )
    process = shell.start("train", preset)
    lines = []
    while "run folder" not in "".join(lines):
        lines.append(process.stderr.readline())
        assert lines[-1], lines
    while not lines[-1].startswith("evaluating"):
        lines.append(process.stderr.readline())
        assert lines[-1], lines
    process.send_signal(signal.SIGUSR1)
    _, stderr = process.communicate(timeout=GUARD)
    assert process.returncode == 128 + signal.SIGUSR1, stderr
    assert stderr.strip().splitlines()[-1].endswith("continue with `flowsim resume runs/run`")
    assert "Traceback" not in stderr


def _interrupted_while_clearing_up(number):
    with interrupting():
        try:
            os.kill(os.getpid(), number)
        finally:
            for each in ENDING:
                os.kill(os.getpid(), each)


@pytest.mark.parametrize("number", ENDING)
def test_the_first_signal_interrupts_and_the_next_ones_do_not(number):
    handlers = {each: signal.getsignal(each) for each in ENDING}
    try:
        with pytest.raises(Interrupted) as interruption:
            _interrupted_while_clearing_up(number)
        assert number_of(interruption.value) == number
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


def test_ignored_signal_stays_ignored_and_handlers_are_restored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupting():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    assert number_of(KeyboardInterrupt()) == signal.SIGINT
    assert not deaf_streams()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), Interrupted(number=signal.SIGTERM)])
def test_signal_during_an_import_is_handled_like_any_other(capsys, interruption):
    """Compiled modules turn what is raised while they are imported into an error of their own."""

    @reporting_errors
    def command():
        raise ImportError("initialization failed") from interruption

    with pytest.raises(typer.Exit) as ended:
        command()
    number = number_of(interruption)
    assert ended.value.exit_code == 128 + number
    how = "interrupted" if number == signal.SIGINT else "ended by SIGTERM"
    assert capsys.readouterr().err == f"flowsim: {how}\n"


def test_failed_import_is_not_taken_for_an_interruption(capsys):
    """It counts as a failure of the importing module: this one, which is not part of the package."""

    @reporting_errors
    def command():
        raise ImportError("initialization failed")

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 1
    assert "initialization failed" in capsys.readouterr().err
