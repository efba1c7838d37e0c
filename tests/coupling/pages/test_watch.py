"""The page of `flowsim watch` shows a training, to this machine only, and changes nothing."""

import http.client
import io
import json
import os
import re
import socket
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import gymnasium
import numpy as np
import pytest
from browser import CHROMIUM, CUT, DESKTOP, PHONE, browser, paper_and_contrast
from PIL import Image
from shell import wait_until

from coupling.files import Table
from coupling.pages import watch
from coupling.run.folder import RunFolder
from coupling.worker.window import FRESH, Window
from flowsim.render.fields import draw_panel
from flowsim.render.snapshot import pack_glimpse, unpack_glimpse

FLOW = ["d_cylinder_wake/sketch", "env_options.start=impulsive", "workers.agents=2", "workers.processes=1",
        "run.name=run", "agent.algorithm=vracer", "agent.network=mlp", "agent.hidden=[8]"]  # fmt: skip


@pytest.fixture
def flows():
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    options = {"preset": "sketch", "start": "impulsive", "autoreset_mode": "SameStep"}
    batch = gymnasium.make_vec(
        "cases:flowsim/DCylinderWake-v0", num_envs=2, vectorization_mode=mode, **options
    )
    batch.reset(seed=0)
    return batch


class Clocks:
    """A clock of a process and one of files, which stand still unless moved."""

    def __init__(self, request: Path) -> None:
        self.now = 100.0
        self._request = request

    def process(self) -> float:
        return self.now

    def files(self) -> float:
        return 1e9 + self.now

    def ask(self) -> None:
        self._request.touch()
        os.utime(self._request, (self.files(), self.files()))


def test_worker_shows_its_flow_only_while_watched(flows, tmp_path):
    clocks, file = Clocks(tmp_path / "watch"), tmp_path / "flow.npz"
    window = Window(tmp_path, 0.2, clocks.process, clocks.files)

    def step(seconds: float) -> bool:
        """Step, and tell whether the flow was shown again."""
        file.unlink(missing_ok=True)
        flows.step(np.array([[0.5, -0.25, 0.0], [0.0, 0.0, 0.0]]))
        clocks.now += seconds
        window.show(flows)
        return file.exists()

    assert not step(1.0), "nobody looks"
    clocks.ask()
    assert step(1.0)
    scene, caption = unpack_glimpse(file.read_bytes())
    episodes = flows.unwrapped.episodes
    true = episodes.task.scene(0)
    np.testing.assert_allclose(scene.values, true.values, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(scene.outlines[1].points, true.outlines[1].points)
    assert [shape.agent for shape in scene.outlines] == [False, True]
    np.testing.assert_array_equal(scene.force, true.force)
    assert (scene.alive_box, scene.size, caption) == (
        true.alive_box,
        true.size,
        episodes.caption(0),
    )
    assert not step(0.1), "at most a few times a second"
    assert step(0.11)
    assert not step(FRESH), "nobody looks any more"


def test_failing_scene_of_a_task_does_not_end_the_worker(flows, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(type(flows.unwrapped.task), "scene", lambda self, index: 1 / 0)
    (tmp_path / "watch").touch()
    window = Window(tmp_path, 0.0)
    for _ in range(2):
        window.show(flows)
    assert capsys.readouterr().err.count("the flow cannot be shown: ZeroDivisionError") == 1


def test_snapshot_keeps_field_and_colours_of_the_task():
    convection = gymnasium.make("cases:flowsim/RayleighBenard-v0", cells_per_height=16).unwrapped
    convection.reset(seed=0)
    true = convection.task.scene(0)
    scene, caption = unpack_glimpse(pack_glimpse(true, convection.episodes.caption(0)))
    shown, quantity = scene.quantity, true.quantity
    assert (shown.name, shown.unit, shown.limit) == ("temperature", "", 1.0)
    assert (shown.signed, shown.colours) == (quantity.signed, quantity.colours)
    true = replace(true, values=true.values.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(draw_panel(scene, caption, 320), draw_panel(true, caption, 320))
    with pytest.raises(ValueError, match="its values come with a scene"):
        shown.of(convection.task.simulation, 0)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY" + bytes(80)])
def test_invalid_snapshot_is_refused(content):
    with pytest.raises(ValueError, match="not a snapshot"):
        unpack_glimpse(content)


def test_table_is_read_incrementally_and_again_when_rewritten(tmp_path):
    table, tail = Table(tmp_path / "table.csv"), watch._Tail(tmp_path / "table.csv")
    tail.update()
    assert tail.curves(("return",)) == {}
    table.append([{"environment_steps": n, "return": -n} for n in range(10)])
    tail.update()
    assert tail.curves(("return", "length")) == {
        "return": [[float(n), -float(n)] for n in range(10)]
    }
    table.append([{"environment_steps": 10, "return": 5.0}])
    with (tmp_path / "table.csv").open("a") as file:
        file.write("11,7")  # a line that is being written
    tail.update()
    assert tail.curves(("return",))["return"][-1] == [10.0, 5.0]
    table.replace(
        [{"environment_steps": "3", "return": ""}, {"environment_steps": "4", "return": "8"}]
    )
    tail.update()
    assert tail.curves(("return",)) == {"return": [[4.0, 8.0]]}, "non-numbers are not drawn"


def ask(
    address: str, path: str = "", method: str = "GET", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    fields = {"Host": parts.netloc} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    connection.putrequest(
        method, parts.path + path if not path.startswith("/") else path, skip_host=True
    )
    for name, value in fields.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content, dict(answer.getheaders())


@pytest.fixture
def run(shell):
    """A training of a flow that goes on, in a folder."""
    process = shell.start("train", *FLOW, "run.steps=1000000")
    folder = RunFolder(shell.folder / "runs" / "run")

    def has_ended_an_episode():
        assert process.poll() is None, process.stderr.read()
        return folder.status.exists() and json.loads(folder.status.read_text())["episodes"]

    wait_until(has_ended_an_episode)
    return folder


def test_page_follows_a_training_and_other_requests_are_refused(run, tmp_path):
    with watch.serve(run) as address:
        state = json.loads(ask(address, "state")[1])
        assert state["status"]["state"] == "training"
        assert state["status"]["workers"][0]["agents"] == [0, 1]
        assert len(state["curves"]["return"]) > 0
        pictures = set()

        def has_moved():
            status, content, _ = ask(address, "flow")
            if status == 200:
                pictures.add(content)
            return len(pictures) == 3

        wait_until(has_moved)
        assert all(Image.open(io.BytesIO(content)).size[0] == 640 for content in pictures)
        before = {path.name for path in run.path.rglob("*")}
        parts = urlsplit(address)
        assert parts.hostname == "127.0.0.1"
        assert len(parts.path) > 30
        assert ask(address)[0] == 200
        assert ask(address, Host=f"localhost:{parts.port}")[0] == 200
        for host in (
            "evil.example",
            f"evil.example:{parts.port}",
            parts.hostname,
            f"127.0.0.1:{parts.port + 1}",
        ):
            assert ask(address, Host=host)[0] == 403, host
        for site in ("cross-site", "same-site"):
            assert ask(address, "state", Sec_Fetch_Site=site)[0] == 403
        for path in (
            "/",
            "/state",
            "/flow",
            f"{parts.path[:-2]}{'y' if parts.path[-2] == 'x' else 'x'}/state",
            f"{parts.path}../state",
            f"{parts.path}config.yaml",
        ):
            assert ask(address, path)[0] == 404, path
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(address, "state", method)[0] == 501, method
        _, _, headers = ask(address)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        after = {path.name for path in run.path.rglob("*")}
        assert {name for name in after - before if "flow" in name or "watch" in name} <= {
            ".flow.npz.new"
        }
        assert (run.watch.stat().st_mode & 0o777, run.flow.stat().st_mode & 0o777) == (0o600, 0o600)
    assert not run.watch.exists()


def test_nothing_is_said_of_connections_that_a_browser_resets(tmp_path, capfd):
    with watch.serve(RunFolder(tmp_path)) as url:
        where = urlsplit(url)
        for _ in range(3):
            peer = socket.create_connection((where.hostname, where.port))
            # a reset instead of an orderly end
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.sendall(b"GET / HTTP/1.1\r\nHost:")
            peer.close()
        other = http.client.HTTPConnection(where.netloc)
        other.request("GET", where.path)
        assert other.getresponse().status == 200
        other.close()
        wait_until(
            lambda: not any("process_request" in each.name for each in threading.enumerate())
        )
    assert capfd.readouterr().err == ""


def test_taken_port_is_reported(shell):
    made = shell.folder / "runs" / "run"
    made.mkdir(parents=True)
    (made / "config.yaml").write_text("env: CartPole-v1\n")
    with watch.serve(RunFolder(made)) as address:
        port = str(urlsplit(address).port)
        assert json.loads(ask(address, "state")[1]) == {
            "status": {"state": "has not begun"},
            "curves": {},
        }
        done = shell.run("watch", "runs/run", "--port", port)
    assert done.returncode == 2
    assert f"--port {port} cannot be opened" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_a_browser_shows_flow_and_curves(run, tmp_path):
    with watch.serve(run) as address, browser(tmp_path) as chromium:
        chromium.open(address)

        def shows_both():
            """A curve's colour, and that of the agent's body in the flow."""
            pixels = chromium.picture().astype(int)
            colours = (0x1F, 0x77, 0xB4), (244, 178, 36)
            return all((np.abs(pixels - colour).max(axis=-1) < 8).sum() > 100 for colour in colours)

        wait_until(shows_both)


@pytest.fixture
def half_done(tmp_path):
    """The folder of a training that has made half of its steps, noisily, and has a long name."""
    folder = tmp_path / ("a_training_with_a_name_that_no_phone_is_as_wide_as" * 2)
    folder.mkdir()
    worker = {"slot": 0, "agents": list(range(24)), "steps": 45678, "last_sign_of_life_seconds": 0.1,
              "delay_p50_us": 123.4, "starts": 1, "failures": 0}  # fmt: skip
    status = {"run": folder.name, "pid": os.getpid(), "state": "training", "environment_steps": 91357,
              "steps_planned": 182714,
              "steps_per_second": 25.0, "updates_per_second": 25.0, "episodes": 400, "mean_return": -41.234567,
              "agents": {str(agent): 3800 for agent in range(24)}, "workers": [worker] * 2, "absent": [1],
              "deaths": [{"time": 0.0, "reason": "/a/path" * 30}], "warnings": [], "written": time.time()}  # fmt: skip
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "config.yaml").write_text("env: CartPole-v1\n")
    noise = np.random.default_rng(0).normal(size=400)
    rows = [
        {"environment_steps": 228 * (n + 1), "return": -123.4 + 0.2 * n + 20 * noise[n], "length": n + 1}
        for n in range(400)
    ]  # fmt: skip
    Table(folder / "episodes.csv").append(rows)
    return RunFolder(folder)


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_page_is_readable_on_a_phone_and_in_dark_mode(half_done, tmp_path):
    with watch.serve(half_done) as address, browser(tmp_path) as chromium:
        for width in (PHONE, DESKTOP):
            for dark in (False, True):
                chromium.open(address, width, dark=dark)
                wait_until(lambda: chromium.ask("document.querySelectorAll('svg').length") == 2)
                assert chromium.ask(f"{CUT}('body')") == []
                for selector in ("", "svg"):
                    paper, contrast = paper_and_contrast(chromium.picture(selector))
                    assert paper < 0.05 if dark else paper > 0.9, (selector, width)
                    assert contrast > 4.5, (selector, width)


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_page_shows_smooth_curves_faint_episodes_round_ticks_and_time_left(half_done, tmp_path):
    with watch.serve(half_done) as address, browser(tmp_path) as chromium:
        chromium.open(address)
        wait_until(lambda: chromium.ask("document.querySelectorAll('svg').length") == 2)
        assert chromium.ask("document.getElementById('left').textContent") == "1:00:54 left"
        lines = chromium.ask(
            "['each', 'mean'].map(kind => { const line = document.querySelector(`polyline.${kind}`);"
            "return [line.getAttribute('points'), getComputedStyle(line).opacity]; })"
        )
        (each, faint), (mean, solid) = [
            (np.array([point.split(",") for point in points.split()], float)[:, 1], float(opacity))
            for points, opacity in lines
        ]
        assert faint < 0.5 < solid
        assert np.abs(np.diff(mean)).sum() < 0.3 * np.abs(np.diff(each)).sum()
        assert np.corrcoef(mean, each)[0, 1] > 0.7
        texts = chromium.ask(
            "[...document.querySelectorAll('svg:first-child text:not(.name)')].map(text => text.textContent)"
        )
        assert {"-100", "-50"} <= set(texts)
        assert {"0", "20k", "40k"} <= set(texts)
        round_number = re.compile(r"-?(0|[125]0*|[1-9]\d?0+)k?")
        assert all(round_number.fullmatch(text) for text in texts), texts
