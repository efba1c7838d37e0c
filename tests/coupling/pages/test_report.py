"""A report is one self-contained page that distinguishes the runs."""

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml
from browser import CHROMIUM, CUT, DESKTOP, PHONE, browser, paper_and_contrast

from coupling.commands import cli
from coupling.film.curves import plot_runs
from coupling.pages import report
from coupling.run import agents, tables
from coupling.run.agents import find_agent
from coupling.run.folder import RunFolder
from flowsim.render.films import write_mp4
from rl_agent.config.colours import method_colours

PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")  # a GIF


class Page(HTMLParser):
    """Collects tables, addresses and tags that were left open."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.addresses, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag == "tr":
            self.rows.append([])
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two small runs that differ in their seed and their gamma, with awkward names."""
    folder, made = tmp_path_factory.mktemp("report"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for seed, name in enumerate(("first", "second")):
            settings = [
                f"run.seed={seed}",
                f"run.name={name}",
                f"agent.gamma={(0.9, 0.95)[seed]}",
                "run.steps=2000",
            ]
            words = [
                "train",
                "env=flowsim/LinearQuadratic-v0",
                *settings,
                "workers.agents=4",
                "workers.processes=1",
            ]
            evaluation = ["run.evaluate_episodes=4"] if seed else []
            patch.setattr("sys.argv", ["flowsim", *words, *evaluation])
            with pytest.raises(SystemExit) as end:
                cli.main()
            assert end.value.code == 0
            made.append(RunFolder.find(folder / "runs" / name))
    return [made[0], RunFolder.find(made[1].path.rename(folder / "runs" / "<b>second"))]


def test_page_is_complete_and_self_contained(runs, tmp_path):
    (runs[0].path / "film.gif").write_bytes(PIXEL)
    report.write_report(runs, tmp_path / "new" / "folder" / "report.html")
    text = (tmp_path / "new" / "folder" / "report.html").read_text()
    page = Page(text)
    assert not page.open
    assert len(page.addresses) > 5
    assert all(address.startswith("data:") for address in page.addresses)
    assert "<b>" not in text
    rows = {row[0]: row for row in page.rows if row}
    assert rows["agent.gamma"] == ["agent.gamma", "0.9", "0.95"]
    assert rows["run.seed"][1:] == ["0", "1"]
    assert "agent.batch_size" not in rows  # the same in both
    assert rows["first"][1:5] == ["flowsim/LinearQuadratic-v0", "vracer", "0", "finished"]
    evaluated = {row[1]: row for row in page.rows if len(row) == 7 and row[0] == "<b>second"}
    assert evaluated.keys() >= {"untrained", "agent", "agent, sampled actions", "zero", "random"}
    assert re.fullmatch(r"\[-[\d.]+, -[\d.]+\]", evaluated["agent"][3])


def test_numbers_equal_those_of_the_command_line(runs, tmp_path, capsys):
    report.write_report(runs, tmp_path / "report.html")
    found = json.loads(runs[1].evaluation.read_text())["after"]
    tables.print_results({"agent": found} | found["baselines"], None)
    printed = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("│")
    ]
    of_the_page = [row[1:] for row in Page((tmp_path / "report.html").read_text()).rows]
    assert len(printed) > 2
    assert all(row in of_the_page for row in printed)


def test_different_tasks_have_separate_axes(runs, tmp_path):
    other = RunFolder(shutil.copytree(runs[1].path, tmp_path / "other"))
    settings = yaml.safe_load(other.config_file.read_text()) | {"env": "Pendulum-v1"}
    other.config_file.write_text(yaml.safe_dump(settings))
    report.write_report([*runs, other], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert text.count('alt="return of an episode against environment steps"') == 2
    assert text.count("<h3>Pendulum-v1</h3>") == 2, "curves, and the learner's diagnostics"
    plot_runs([*runs, other], tmp_path / "plot.svg")
    assert len(re.findall(r'id="axes_\d+"', (tmp_path / "plot.svg").read_text())) == 4


def test_a_method_has_its_own_colour_and_a_variant_another(runs, tmp_path):
    report.write_report(runs, tmp_path / "report.html")
    keys = re.findall(r"border-top-color: (#\w+)", (tmp_path / "report.html").read_text())
    assert keys[0] == method_colours()["V-RACER"]
    assert keys[1] not in method_colours().values()


def test_page_omits_diagnostics_that_a_learner_does_not_have(runs, tmp_path):
    plain = RunFolder(shutil.copytree(runs[0].path, tmp_path / "plain"))
    settings = yaml.safe_load(plain.config_file.read_text())
    settings["agent"]["replay"] = "none"
    plain.config_file.write_text(yaml.safe_dump(settings))
    drawn = {}
    for name, folders in {"plain": [plain], "both": [plain, runs[1]]}.items():
        report.write_report(folders, tmp_path / f"{name}.html")
        text = (tmp_path / f"{name}.html").read_text()
        drawn[name] = text.count('alt="diagnostics of the learner: ')
        assert ("Remember-and-forget" in text) == (name == "both")
    assert drawn["plain"] == drawn["both"] - len(report.REMEMBER_FORGET)


def test_film_that_is_too_large_is_left_out_and_named(runs, tmp_path, monkeypatch):
    (runs[0].path / "film.gif").write_bytes(PIXEL)
    monkeypatch.setattr(report, "LARGEST_FILM", len(PIXEL) - 1)
    report.write_report(runs[:1], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "first/film.gif is left out" in text
    assert "What differs" not in text


def test_run_without_a_film_gets_a_hint_to_render_one(runs, tmp_path, monkeypatch, capsys):
    bare = RunFolder(shutil.copytree(runs[1].path, tmp_path / "bare"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["flowsim", "report", "bare"])
    said = []
    for start in ("", '{"draws_itself": false}\n', '{"draws_itself": true}\n'):
        bare.starts.write_text(start)
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 0
        said.append([(tmp_path / "report.html").read_text(), capsys.readouterr().err])
    how = "No film in bare: flowsim render bare -o bare/film.mp4"
    assert [[how in text for text in each] for each in said] == [
        [False, False],
        [False, False],
        [True, True],
    ]
    spaced = RunFolder(bare.path.rename(tmp_path / "its film"))
    (note,) = report.write_report([spaced], tmp_path / "report.html")
    assert note.endswith(f"render '{spaced.path}' -o '{spaced.path / 'film.mp4'}'")
    (spaced.path / "film.gif").write_bytes(PIXEL)  # where that command leaves it
    assert report.write_report([spaced], tmp_path / "report.html") == []


def test_shipped_agent_gets_no_hint_to_render_a_film(tmp_path, monkeypatch):
    shutil.copytree(find_agent(Path("sketch")).path, tmp_path / "sketch")
    (tmp_path / "sketch" / "starts.jsonl").write_text('{"draws_itself": true}\n')
    assert len(report.write_report([RunFolder(tmp_path / "sketch")], tmp_path / "report.html")) == 1
    monkeypatch.setattr(agents, "SHIPPED", tmp_path)
    sketch = find_agent(Path("sketch"))
    assert report.write_report([sketch], tmp_path / "report.html") == []


def test_output_that_is_not_html_is_refused(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv", ["flowsim", "report", str(runs[0].path), "-o", str(tmp_path / "report.pdf")]
    )
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "a name that ends in .html" in capsys.readouterr().err


def browse(page, folder, *words):
    """Open a page in the browser without a window; return what it wrote."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1100,1600"]
    options += [f"--user-data-dir={folder / 'profile'}", *words]
    done = subprocess.run(
        [CHROMIUM, *options, str(page)], capture_output=True, timeout=300, text=True, check=False
    )
    return done.stdout


def answer(page, folder, script, *words):
    """Open a page with a script appended that puts its answer into the title; return the title."""
    page.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
    shown = browse(page, folder, *words, "--dump-dom")
    return re.search(r"<title>(.*)</title>", shown)[1]


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_a_browser_shows_the_curves(runs, tmp_path):
    report.write_report(runs, tmp_path / "report.html")
    with browser(tmp_path) as chromium:
        chromium.open((tmp_path / "report.html").as_uri())
        pixels = chromium.picture(".plot").astype(int)
    of_a_curve = np.abs(pixels - (0x1F, 0x77, 0xB4)).max(axis=-1) < 8  # V-RACER's colour
    assert of_a_curve.sum() > 200


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_page_is_readable_on_a_phone_and_in_dark_mode(runs, tmp_path):
    (runs[0].path / "film.gif").write_bytes(PIXEL)
    named = tmp_path / ("a_name_that_is_longer_than_a_phone_is_wide" * 2)
    long = RunFolder(shutil.copytree(runs[1].path, named))
    report.write_report([*runs, long], tmp_path / "report.html")
    with browser(tmp_path) as chromium:
        for width in (PHONE, DESKTOP):
            for dark in (False, True):
                chromium.open((tmp_path / "report.html").as_uri(), width, dark=dark)
                for selector in ("", ".plot"):
                    paper, contrast = paper_and_contrast(chromium.picture(selector))
                    assert paper < 0.05 if dark else paper > 0.9, (selector, width)
                    assert contrast > 4.5, (selector, width)
                # letters of ten points in a picture of 4.2 inches
                assert chromium.ask("document.querySelector('.plot').clientWidth") * 10 / 302 > 9
                chromium.ask(
                    "document.querySelectorAll('details').forEach(each => each.open = true)"
                )
                assert chromium.ask(f"{CUT}('body')") == []


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_a_browser_plays_the_film(runs, tmp_path):
    run = RunFolder(shutil.copytree(runs[1].path, tmp_path / "filmed"))
    frames = [np.full((48, 64, 3), 20 * n, np.uint8) for n in range(10)]
    write_mp4(run.path / "film.mp4", frames, fps=5.0)
    page = tmp_path / "report.html"
    report.write_report([run], page)
    ask = (
        "const v = document.querySelector('video');"
        "v.onloadedmetadata = () => document.title = [v.videoWidth, v.videoHeight, v.duration].join(' ');"
        "v.onerror = () => document.title = 'error ' + v.error.message; v.load();"
    )
    assert answer(page, tmp_path, ask, "--virtual-time-budget=10000") == "64 48 2"


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_short_words_in_tables_are_not_broken(runs, tmp_path):
    """A name that is too long for its column is broken; the cells beside it are not."""
    run = RunFolder(
        shutil.copytree(runs[1].path, tmp_path / "a_school_of_swimmers_that_keeps_together_1")
    )
    long = "parallel:cases." + 8 * "a_school_of_swimmers" + ".env"
    settings = yaml.safe_load(run.config_file.read_text()) | {"env": long}
    run.config_file.write_text(yaml.safe_dump(settings))
    page = tmp_path / "report.html"
    report.write_report([run], page)
    ask = (
        "const lines = cell => { const text = document.createRange(); text.selectNodeContents(cell);"
        "return new Set([...text.getClientRects()].map(box => Math.round(box.top))).size; };"
        "document.title = [...document.querySelector('table').rows[1].cells].map(lines).join(' ');"
    )
    lines = answer(page, tmp_path, ask, "--window-size=1200,800")
    name, task, *others = map(int, lines.split())
    assert task > 1
    assert {name, *others} == {1}
