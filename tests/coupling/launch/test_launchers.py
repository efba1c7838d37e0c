"""Workers on clusters and by hand: real runs over a Ray cluster of two nodes, submitit and a stand-in for SLURM.

One file, so that every launcher passes the same checks and the cluster is started once.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from audit import audit_memory
from shell import GUARD, HERE, ROOT, complaint, wait_until

from coupling.commands import cli
from coupling.errors import ConfigError
from coupling.launch import check_launcher, make_launcher
from coupling.settings.config import WorkerSettings, load_config
from coupling.wire.address import endpoint_to_bind, is_loopback
from coupling.wire.connection import Connection, read_connection
from rl_agent.learner import Learner

SLOW = {"step_seconds": 0.002}


def own_address() -> str:
    """The address by which other machines reach this one, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def hosts_of(folder: Path) -> list[psutil.Process]:
    """All living workers whose files lie in a folder, whoever started them."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if "coupling.worker" in (line := process.info["cmdline"] or [])
        and any(word.startswith(str(folder)) for word in line)
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def training(shell) -> dict | None:
    """The status once both workers have steps."""
    status = shell.status()
    workers = status.get("workers", [])
    return status if len(workers) == 2 and all(worker["steps"] for worker in workers) else None


def everything_is_there_once(shell) -> None:
    """Check that the memory of a stopped run holds every step of every episode that the learner counts, once."""
    learner = Learner.load(shell.run_folder / "checkpoint.npz")
    assert (
        audit_memory(learner) + learner.collector.open_episodes.length.sum()
        == learner.environment_steps
        > 0
    )


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["workers.launcher=pbs"],
            r"workers\.launcher = 'pbs': input should be 'local', 'ray', 'slurm' or 'none'",
        ),
        (
            ["workers.launcher=slurm"],
            r"workers\.bind = 127\.0\.0\.1 can be reached from this machine only",
        ),
        (
            ["workers.launcher=ray", "workers.transport=ipc"],
            r"workers\.transport = ipc connects workers on this machine only",
        ),
        (
            ["workers.launcher=ray", "workers.devices=[0]"],
            r"workers\.devices = \[0\] is for workers\.launcher = local",
        ),
        (
            ["workers.ray.cpu=2"],
            r"unknown key 'workers\.ray\.cpu': did you mean 'workers\.ray\.cpus'\?",
        ),
        (
            ["workers.slurm.time=0"],
            r"workers\.slurm\.time = 0: input should be greater than or equal to 1",
        ),
    ],
)
def test_invalid_launcher_settings_give_a_one_line_error(tmp_path, words, sentence):
    (tmp_path / "preset.yaml").write_text("env: Pendulum-v1\n")
    with pytest.raises(ConfigError, match=sentence) as caught:
        load_config(str(tmp_path / "preset.yaml"), words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("launcher", "library"), [("ray", "ray"), ("slurm", "submitit")])
def test_missing_library_error_names_the_extra(monkeypatch, launcher, library):
    monkeypatch.setitem(sys.modules, library, None)
    settings = WorkerSettings.model_validate({"launcher": launcher, "slurm": {"cluster": "local"}})
    with pytest.raises(
        ConfigError, match=rf"needs {library}: pip install 'flowsim-rl\[{launcher}\]'"
    ):
        check_launcher(settings)


def test_slurm_launcher_without_slurm_is_refused(monkeypatch):
    pytest.importorskip(
        "submitit", reason="submitit is not installed: pip install 'flowsim-rl[slurm]'"
    )
    monkeypatch.setenv("PATH", "/nowhere")
    # independent of the networks of this machine
    monkeypatch.setattr("coupling.launch.endpoint_to_bind", lambda transport, bind: "")
    with pytest.raises(ConfigError, match="this machine is not part of a SLURM cluster"):
        check_launcher(WorkerSettings(launcher="slurm", bind="head"))


def test_addresses():
    assert endpoint_to_bind("ipc", "anything") == "ipc://*"
    assert endpoint_to_bind("tcp", "127.0.0.1") == "tcp://127.0.0.1:*"
    assert endpoint_to_bind("tcp", "localhost") == "tcp://127.0.0.1:*"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="Address already in use"):
            endpoint_to_bind("tcp", f"127.0.0.1:{port}")
    assert endpoint_to_bind("tcp", f"127.0.0.1:{port}") == f"tcp://127.0.0.1:{port}"
    for bind, sentence in [
        ("0.0.0.0", "every address of this machine"),
        ("127.0.0.1:http", "the port must be a number"),
        ("::1", "is an IPv6 address, which is not supported"),
        ("[fe80::1]:5555", "is an IPv6 address, which is not supported"),
        ("198.51.100.7", "not an address that this machine can listen on"),
        ("no-such-host.invalid", "not an address that this machine can listen on"),
        ("a..b", "listen on: it is not a valid name"),
        ("a" * 64, "listen on: it is not a valid name"),
    ]:
        with pytest.raises(ConfigError, match=sentence):
            endpoint_to_bind("tcp", bind)
    assert [is_loopback(bind) for bind in ("127.0.0.1:5", "127.1.2.3", "localhost", "10.0.0.1", "head")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_host_name_of_a_loopback_address_is_refused_for_remote_workers(monkeypatch):
    # as Debian's /etc/hosts has it
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "127.0.1.1")
    with pytest.raises(ConfigError, match=r"workers\.bind = 'head' is 127\.0\.1\.1 here"):
        endpoint_to_bind("tcp", "head")


def test_hinted_address_can_be_reached_by_remote_workers(tmp_path):
    (tmp_path / "preset.yaml").write_text("env: Pendulum-v1\n")
    with pytest.raises(ConfigError) as remote:
        load_config(str(tmp_path / "preset.yaml"), ["workers.launcher=slurm"])
    with pytest.raises(ConfigError) as every:
        endpoint_to_bind("tcp", "0.0.0.0")
    for caught in (remote, every):
        (hint,) = re.findall(r"such as workers\.bind=(.*)$", str(caught.value))
        answer = subprocess.run(["bash", "-c", f"echo {hint}"], capture_output=True, text=True)
        address = answer.stdout.strip()
        assert answer.returncode == 0, answer.stderr
        # none on a machine without a network
        assert not address or endpoint_to_bind("tcp", address) == f"tcp://{address}:*"


# --- by hand -----------------------------------------------------------------------------------------------


def connection_for(counts: list[int]) -> Connection:
    return Connection("tcp://127.0.0.1:9", "far", "Pendulum-v1", {}, 600.0, environments=counts)


def test_connection_file_gives_a_worker_its_number_of_environments():
    assert connection_for([3, 3]).environments_at(None) == 3
    assert connection_for([3, 2]).environments_at(1) == 2
    with pytest.raises(
        ConfigError, match="host 2, 3 environments; give --slot N or --environments K"
    ):
        connection_for([3, 2]).environments_at(None)
    with pytest.raises(ConfigError, match="--slot 2: run far has workers 0 to 1"):
        connection_for([3, 2]).environments_at(2)


def test_manual_launcher_prints_the_command_and_reports_a_silent_worker_once(tmp_path):
    settings = WorkerSettings(launcher="none", processes=2, agents=5)
    launcher = make_launcher(settings, tmp_path / "connection.json", tmp_path)
    launcher.start()
    line = f"flowsim worker --connect {tmp_path / 'connection.json'}"
    assert f"`{line} --slot N --outbox outbox-N` with N from 0 to 1" in launcher.waits_for()
    launcher.kill(1, "no sign of life for 5 s")
    (death,) = launcher.supervise()
    assert str(death).startswith("worker 1 is gone (no sign of life for 5 s): restart it")
    assert launcher.supervise() == []


@pytest.mark.parametrize(
    ("processes", "end"), [(1, "outbox-1`"), (2, "outbox-1` with an outbox of its own")]
)
def test_printed_command_has_an_outbox(tmp_path, processes, end):
    settings = WorkerSettings(launcher="none", processes=processes, agents=4)
    launcher = make_launcher(settings, tmp_path / "connection.json", tmp_path)
    assert launcher.waits_for().endswith(f"{tmp_path / 'connection.json'} --outbox {end}")


def test_worker_refuses_a_missing_connection_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["flowsim", "worker", "--connect", str(tmp_path / "none.json")])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    said = complaint(capsys.readouterr().err)
    assert said.startswith(f"flowsim: --connect: {tmp_path / 'none.json'} does not exist; it is in")


def test_serve_waits_for_manually_started_workers(shell):
    preset = shell.preset(run={"steps": 600}, env_options=shell.meeting())
    learner = shell.start("serve", preset)
    connection = shell.run_folder / "connection.json"
    wait_until(connection.exists)
    assert read_connection(connection).environments == [2, 2]
    assert connection.stat().st_mode & 0o777 == 0o600
    far = shell.folder / "copy.json"  # as it would be copied to another machine
    far.write_bytes(connection.read_bytes())
    far.chmod(0o600)  # it holds the keys
    workers = [shell.start("worker", "--connect", str(connection))]
    wait_until(lambda: list((shell.folder / "meeting").iterdir()))  # it waits there for the other
    workers.append(shell.start("worker", "--connect", str(far)))
    _, stderr = learner.communicate(timeout=GUARD)
    assert learner.returncode == 0, stderr
    assert "flowsim worker --connect runs/run/connection.json" in stderr
    assert len(shell.status()["agents"]) == 4
    for worker in workers:
        assert worker.wait(GUARD) == 0, worker.stderr.read()
    done = shell.run("serve", preset, "workers.launcher=ray")
    assert (done.returncode, done.stdout) == (2, "")
    assert "flowsim serve starts no workers" in done.stderr


# --- SLURM -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_submitit_on_this_machine(shell):
    """The local executor of submitit: a worker that dies is submitted again, and Ctrl-C leaves no job."""
    pytest.importorskip(
        "submitit", reason="submitit is not installed: pip install 'flowsim-rl[slurm]'"
    )
    preset = shell.preset(
        env_options=SLOW,
        run={"steps": 10**6},
        workers={"launcher": "slurm", "slurm": {"cluster": "local"}},
    )
    learner = shell.start("train", preset)
    status = wait_until(lambda: training(shell))
    pids = {worker["slot"]: worker["pid"] for worker in status["workers"]}
    os.kill(pids[0], signal.SIGKILL)
    again = wait_until(lambda: (now := training(shell)) and now["restarts"] == 1 and now)
    assert {worker["slot"]: worker["pid"] for worker in again["workers"]}[1] == pids[1]
    learner.send_signal(signal.SIGINT)
    _, stderr = learner.communicate(timeout=GUARD)
    assert learner.returncode == 130, stderr
    assert "worker 0 died (signal SIGKILL)" in stderr
    assert not hosts_of(shell.folder)
    assert (shell.run_folder / "workers" / "jobs").stat().st_mode & 0o777 == 0o700


@pytest.mark.cluster
def test_local_submitit_jobs_end_when_their_learner_is_killed(shell):
    pytest.importorskip(
        "submitit", reason="submitit is not installed: pip install 'flowsim-rl[slurm]'"
    )
    preset = shell.preset(env_options=SLOW, workers={"launcher": "slurm", "slurm": {"cluster": "local"}},
                          run={"steps": 10**6})  # fmt: skip
    learner = shell.start("train", preset)
    wait_until(lambda: training(shell))
    assert len(hosts_of(shell.folder)) == 2
    learner.kill()
    learner.wait()
    wait_until(lambda: not hosts_of(shell.folder))


@pytest.fixture
def slurm(shell, monkeypatch):
    """A shell for which this machine has a SLURM; its jobs end with the test."""
    pytest.importorskip(
        "submitit", reason="submitit is not installed: pip install 'flowsim-rl[slurm]'"
    )
    if is_loopback(own_address()):
        pytest.skip(
            "this machine has no address beside the loopback, which the launcher slurm refuses"
        )
    (shell.folder / "slurm").mkdir()
    (shell.folder / "bin").mkdir()
    monkeypatch.setenv("FAKE_SLURM", str(shell.folder / "slurm"))
    import fake_slurm

    fake_slurm.FOLDER = shell.folder / "slurm"
    fake_slurm.install(shell.folder / "bin")
    shell.environment |= {
        "FAKE_SLURM": str(shell.folder / "slurm"),
        "PATH": f"{shell.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    yield fake_slurm
    for file in (shell.folder / "slurm").glob("*.json"):
        fake_slurm.scancel(file.stem)


def jobs_of(shell) -> dict[str, dict]:
    return {
        file.stem: json.loads(file.read_text()) for file in (shell.folder / "slurm").glob("*.json")
    }


@pytest.mark.slow
def test_slurm_jobs_are_an_array_requeued_and_taken_over(shell, slurm):
    preset = shell.preset(
        env_options=SLOW,
        agent={"buffer_size": 65536},
        run={"steps": 10**6, "checkpoint_every": 0.5},
        workers={
            "launcher": "slurm",
            "bind": own_address(),
            "slurm": {"partition": "long", "time": 30, "sbatch": {"qos": "low"}},
        },
    )
    (shell.folder / "slurm" / "full").touch()
    learner = shell.start("train", preset)
    jobs = wait_until(lambda: len(jobs_of(shell)) == 2 and jobs_of(shell))
    assert set(jobs) == {"1_0", "1_1"}
    options = jobs["1_0"]["options"]
    assert {key: options[key] for key in ("array", "partition", "time", "qos", "requeue")} == {
        "array": "0-1%2", "partition": "long", "time": "30", "qos": "low", "requeue": "",
    }  # fmt: skip
    (shell.folder / "slurm" / "full").unlink()
    wait_until(lambda: training(shell))

    # SLURM preempts the second job: submitit has it queued again, and it goes on as the same job
    (host,) = [process for process in hosts_of(shell.folder) if "1" in process.cmdline()]
    host.parent().send_signal(signal.SIGUSR2)
    wait_until(lambda: jobs_of(shell)["1_1"]["starts"] == 2 and training(shell))
    assert set(jobs_of(shell)) == {"1_0", "1_1"}

    # the learner dies; the resumed one takes the jobs over instead of submitting others
    learner.kill()
    learner.wait()
    resumed = shell.start("resume", "runs/run")
    wait_until(lambda: shell.status().get("epoch") == 1 and training(shell))
    assert set(jobs_of(shell)) == {"1_0", "1_1"}
    resumed.send_signal(signal.SIGINT)
    _, stderr = resumed.communicate(timeout=GUARD)
    assert resumed.returncode == 130, stderr
    wait_until(lambda: not hosts_of(shell.folder))
    # whoever started a host notes its end after it
    wait_until(
        lambda: {job["state"] for job in jobs_of(shell).values()} <= {"COMPLETED", "CANCELLED"}
    )
    everything_is_there_once(shell)


@pytest.mark.cluster
def test_run_whose_jobs_never_start_reports_it_and_ends(shell, slurm):
    (shell.folder / "slurm" / "full").touch()
    preset = shell.preset(workers={"launcher": "slurm", "bind": own_address(), "wait": 3.0})
    done = shell.run("train", preset)
    assert done.returncode == 1
    assert "waiting for SLURM to start 2 of 2 jobs (1_0, 1_1)" in done.stderr
    assert (
        "no worker was connected for workers.wait = 3 s: the run was waiting for SLURM"
        in done.stderr
    )
    wait_until(lambda: {job["state"] for job in jobs_of(shell).values()} == {"CANCELLED"})


@pytest.mark.cluster
@pytest.mark.parametrize("script", ["one-job", "learner"])
def test_sbatch_scripts_of_the_docs_train_and_resume(shell, slurm, script):
    """Both sbatch scripts, as they are, with a smaller preset: to the end, and once more from there."""
    preset = shell.preset(run={"steps": 600, "name": None})
    command = shell.folder / "bin" / "flowsim"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m coupling.commands.cli "$@"\n')
    command.chmod(0o755)
    variables = {"PRESET": preset, "NAME": "run", "BIND": own_address()}
    processes = 8 if script == "one-job" else 2  # as the script asks for
    for job, steps in enumerate((600, 900), start=1):
        subprocess.run(
            ["sbatch", str(ROOT / "docs" / "cluster" / f"{script}.sbatch"), f"run.steps={steps}",
             f"workers.processes={processes}", *(["workers.agents=8"] if job == 1 else [])],
            cwd=shell.folder, env=shell.environment | variables, check=True,
        )  # fmt: skip
        (name,) = [name for name, content in jobs_of(shell).items() if content["script"].endswith(f"{script}.sbatch")
                   and content["state"] in ("PENDING", "RUNNING")]  # fmt: skip
        wait_until(lambda name=name: jobs_of(shell)[name]["state"] not in ("PENDING", "RUNNING"))
        assert jobs_of(shell)[name]["state"] == "COMPLETED"
        assert shell.status()["state"] == "finished"
        assert shell.status()["environment_steps"] >= steps
    assert len(shell.status()["agents"]) == 8
    assert not hosts_of(shell.folder)


# --- Ray ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """Two Ray nodes on this machine, with room for one worker and for two."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'flowsim-rl[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(HERE)]))
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        try:
            cluster.add_node(num_cpus=2)
            cluster.wait_for_nodes()
            yield cluster
        finally:
            cluster.shutdown()


def ray_preset(shell, cluster, **workers) -> str:
    return shell.preset(
        env_options=SLOW,
        agent={"buffer_size": 65536},
        run={"steps": 10**6, "checkpoint_every": 0.5},
        workers={"launcher": "ray", "ray": {"address": cluster.address}, **workers},
    )


def ray_hosts(shell) -> list[psutil.Process]:
    return hosts_of(ray_folder(shell))


def ray_folder(shell) -> Path:
    """The beginning of the names of the folders that this run's actors make."""
    import tempfile

    name = (shell.run_folder / "workers" / "ray-namespace").read_text()
    return Path(tempfile.gettempdir()) / f"flowsim-{name}"


def nothing_is_left(shell) -> bool:
    return not ray_hosts(shell) and not list(
        ray_folder(shell).parent.glob(f"{ray_folder(shell).name}*")
    )


@pytest.mark.cluster
def test_killed_ray_workers_and_actors_are_restarted(shell, cluster):
    learner = shell.start("train", ray_preset(shell, cluster))
    wait_until(lambda: training(shell))
    (folder, _) = sorted(ray_folder(shell).parent.glob(f"{ray_folder(shell).name}*"))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "connection.json").stat().st_mode & 0o777 == 0o600
    raylets = {host.parent().parent().pid for host in ray_hosts(shell)}
    assert len(raylets) == 2  # one worker on each node

    ray_hosts(shell)[0].kill()
    wait_until(lambda: (now := training(shell)) and now["restarts"] == 1)
    ray_hosts(shell)[0].parent().kill()  # the actor, whose worker dies with it
    wait_until(lambda: (now := training(shell)) and now["restarts"] == 2)
    learner.send_signal(signal.SIGINT)
    _, stderr = learner.communicate(timeout=GUARD)
    assert learner.returncode == 130, stderr
    assert "died (signal SIGKILL)" in stderr
    assert "its actor has died" in stderr
    assert nothing_is_left(shell)
    everything_is_there_once(shell)


@pytest.mark.cluster
def test_a_resumed_run_takes_its_ray_workers_over(shell, cluster):
    learner = shell.start("train", ray_preset(shell, cluster))
    wait_until(lambda: training(shell))
    pids = {host.pid for host in ray_hosts(shell)}
    learner.kill()
    learner.wait()
    resumed = shell.start("resume", "runs/run")
    wait_until(lambda: shell.status().get("epoch") == 1 and training(shell))
    assert {host.pid for host in ray_hosts(shell)} == pids
    resumed.send_signal(signal.SIGINT)
    _, stderr = resumed.communicate(timeout=GUARD)
    assert resumed.returncode == 130, stderr
    assert nothing_is_left(shell)
    everything_is_there_once(shell)


@pytest.mark.cluster
def test_ray_actors_without_a_learner_end_themselves(shell, cluster):
    learner = shell.start("train", ray_preset(shell, cluster, patience=6.0))
    wait_until(lambda: training(shell))
    learner.kill()
    learner.wait()
    assert len(ray_hosts(shell)) == 2
    wait_until(lambda: nothing_is_left(shell))
    import ray

    ray.init(address=cluster.address, log_to_driver=False)
    try:
        wait_until(lambda: not ray.util.list_named_actors(all_namespaces=True))
    finally:
        ray.shutdown()


@pytest.mark.cluster
def test_missing_ray_cluster_is_reported(shell, cluster):
    done = shell.run(
        "train", shell.preset(workers={"launcher": "ray", "ray": {"address": "127.0.0.1:9"}})
    )
    assert done.returncode == 1
    assert "workers.ray.address = '127.0.0.1:9': there is no Ray cluster to join" in done.stderr
    assert "Traceback" not in done.stderr
