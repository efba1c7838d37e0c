"""The code blocks of the README and docs run as documented, page by page, each page in its own folder.

Blocks of Python and of bash run in their order, those of Python in one process. What stands around them says more:

- blocks of YAML that begin with a file's name, and blocks under ``<!-- file: NAME -->``, are written to it first;
- ``<!-- given: NAME is PATH -->`` puts a file or folder of the repository there;
- a block of text right below one of Python shows what that prints, with numbers that agree to 3 %;
- a block under ``<!-- not run: WHY -->`` is not run. Its lines that begin with ``flowsim`` still have to be words that
  the command line and the settings take, and what it calls by ``make`` or ``python`` has to be there.

One file, since every test reads the same pages and blocks of code.
"""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml
from browser import CHROMIUM, CUT, DESKTOP, PHONE, browser, paper_and_contrast

from coupling.bench.learner import SAMPLERS
from coupling.commands.cli import app
from coupling.settings.config import load_config
from rl_agent.config import algorithms

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GIVEN = re.compile(r"<!-- given: (\S+) is (\S+) -->")
FENCED = re.compile(
    r"(?:<!-- (?P<remark>not run|file): (?P<text>[^\n]*?) -->\n+)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)
NAMED = re.compile(r"# ([\w.-]+\.ya?ml)\b")


class Block(NamedTuple):
    """A fenced block: its language, its code, and what the comment above it says."""

    language: str
    code: str
    not_run: str
    file: str


def blocks(page: Path) -> list[Block]:
    found = []
    for match in FENCED.finditer(page.read_text(encoding="utf-8")):
        remark, text, language, code = (
            match["remark"],
            match["text"],
            match["language"],
            match["code"],
        )
        named = NAMED.match(code) if language == "yaml" else None
        file = text if remark == "file" else named[1] if named else ""
        found.append(Block(language, code, text if remark == "not run" else "", file))
    return found


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def write_files(page: Path, folder: Path) -> None:
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.code)
    for where, what in GIVEN.findall(page.read_text(encoding="utf-8")):
        copy = shutil.copytree if (ROOT / what).is_dir() else shutil.copy
        (folder / where).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / what, folder / where)


def shown(page: Path) -> list[str]:
    """Collect the lines that a page says its blocks of Python print."""
    texts = re.findall(
        r"^```python\n.*?^```\n\n```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S
    )
    return [line for text in texts for line in text.splitlines()]


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def agree(line: str, printed: str) -> bool:
    """Tell whether two lines have the same words, and numbers that agree to 3 %, or to two of the last digit shown."""
    if NUMBER.sub("#", line) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(line), NUMBER.findall(printed), strict=True)
    return all(
        abs(float(a) - float(b))
        <= max(0.03 * abs(float(a)), 2.0 * 10.0 ** -len(a.partition(".")[2]))
        for a, b in pairs
    )


def steps(page: Path) -> list[Block]:
    return [
        b for b in blocks(page) if b.language in ("python", "bash") and not b.not_run and not b.file
    ]


def program(page: Path) -> str:
    """Write all blocks of a page that run as one program, which calls the bash blocks."""
    parts = []
    for block in steps(page):
        call = f"__import__('subprocess').run(['bash', '-euo', 'pipefail', '-c', {block.code!r}], check=True)\n"
        parts.append(block.code if block.language == "python" else call)
    return "\n".join(parts)


def test_learner_rates_in_docs_match_the_benchmark():
    """The last columns of both tables: updates per second, those of a peer in brackets."""
    kept = ROOT / "benchmarks" / "results" / "bench" / "learner.json"
    measured = [
        ((row["algorithm"], row["network"], row["sampler"], row["batch"]), row)
        for row in json.loads(kept.read_text())["rows"]
    ]
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for (algorithm, network, *_), row in measured:
        first.setdefault((algorithm, network), row)
    for shown, *_, mlp, lstm in rows(ROOT / "docs" / "algorithms.md", "## Supported algorithms"):
        algorithm = re.search(r"`(\w+)`", shown)[1]
        rate, _, peer = mlp.partition(" ")
        assert rate == f"{first[algorithm, 'mlp']['updates_per_second']:.0f}", algorithm
        if peer:
            assert peer == f"({first[algorithm, 'mlp']['peer_updates_per_second']:.0f})", algorithm
        if lstm.strip("| "):
            assert lstm == f"{first[algorithm, 'lstm']['updates_per_second']:.0f}", algorithm

    sampled = dict(measured[len(first) :])
    for algorithm, *rates, beside in rows(ROOT / "docs" / "samplers.md", "## Speed"):
        there = [
            sampled[algorithm, "mlp", sampler, 128]["updates_per_second"] for sampler in SAMPLERS
        ]
        assert rates == [f"{rate:.0f}" for rate in there], algorithm
        assert beside == f"{there[0] / there[-1] - 1.0:.1f}", algorithm


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if steps(page)], ids=name)
def test_code_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    write_files(page, tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    # the commands of a page import what the page imports
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    script = tmp_path / "blocks_of_the_page.py"
    script.write_text(program(page))
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for line in shown(page):
        assert any(agree(line, printed) for printed in done.stdout.splitlines()), (
            f"not printed: {line}\n{done.stdout}"
        )
    if page.name == "README.md":
        # a disk at Re 40, as the comment beside the line says
        assert round(float(done.stdout.partition("C_D")[2]), 2) == 1.53


def commands(page: Path) -> list[str]:
    """Collect the lines of a page that call something and are not run; continued ones are one line."""
    kept = [block.code for block in blocks(page) if block.language == "bash" and block.not_run]
    return [
        line.strip()
        for code in kept
        for line in code.replace("\\\n", " ").splitlines()
        if line.strip()
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_that_are_not_run_are_valid(page, tmp_path, monkeypatch):
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    for line in commands(page):
        words = shlex.split(line, comments=True)
        if words and words[0] == "flowsim":
            refuse_nothing(words[1:])
        elif words and words[0] == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
            assert words[1] in targets, line
        elif words and words[0] in ("python", ".venv/bin/python") and words[1].endswith(".py"):
            assert (ROOT / words[1]).is_file(), line


def refuse_nothing(words: list[str]) -> None:
    """Parse a command as the command line does, and validate the settings of what it would train."""
    group: Any = typer.main.get_command(app)
    with group.make_context("flowsim", list(words)) as context:
        verb, command, rest = group.resolve_command(context, list(words))
        with command.make_context(verb, rest, parent=context) as called:
            given = called.params
    what, changes = given.get("preset") or given.get("what"), given.get("overrides") or []
    if verb in ("train", "serve") and what and not what.startswith("runs/"):
        by_hand = ["workers.launcher=none"] if verb == "serve" else []
        load_config(
            None if "=" in what else what, ([what] if "=" in what else []) + by_hand + changes
        )
    elif verb == "resume":
        load_config("d_cylinder_wake/quick", changes)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("train d_cylinder_wake/quik", "quik"),
        ("train d_cylinder_wake/quick agent.gama=1", "gama"),
        ("resume runs/x run.stops=1", "stops"),
        ("render wake --otput x", "No such option"),
        ("rendr wake", "No such command"),
    ],
)
def test_command_check_rejects_wrong_commands(line, why):
    with pytest.raises(Exception, match=why):
        refuse_nothing(line.split())


def test_c_code_in_docs_compiles(c_tools):
    (code,) = [
        block.code for block in blocks(ROOT / "docs" / "clients.md") if block.language == "c"
    ]
    command = [
        "cc",
        "-std=c99",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Icoupling/c",
        "-x",
        "c",
        "-",
    ]
    done = subprocess.run(
        command, cwd=ROOT, input=code, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


FORTRAN = """\
program example
use, intrinsic :: iso_c_binding
use, intrinsic :: iso_fortran_env, only: error_unit
use flowsim_client
implicit none
integer, parameter :: n = 3
type(flowsim_worker) :: worker
real(c_float) :: observations(2, n), final_observations(2, n), actions(1, n)
real(c_double) :: rewards(n)
integer(c_int) :: status(n)
integer :: code
CODE
end program example
"""


def test_fortran_code_in_docs_compiles(tmp_path):
    if not shutil.which("gfortran"):
        pytest.skip("no gfortran")
    (code,) = [b.code for b in blocks(ROOT / "docs" / "clients.md") if b.language == "fortran"]
    module = ROOT / "coupling" / "c" / "flowsim_client.f90"
    (tmp_path / "block.f90").write_text(FORTRAN.replace("CODE", code))
    command = ["gfortran", "-std=f2008", "-fsyntax-only", "-Wall", module, "block.f90"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_closed_and_python_that_is_not_run_parses(page):
    fences = [
        line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```")
    ]
    assert len(fences) == 2 * len(blocks(page)), (
        "a fence is not closed, or its comment is not right above it"
    )
    for block in blocks(page):
        if block.language == "python" and block.not_run:
            ast.parse(block.code)


LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def anchors(page: Path) -> set[str]:
    """Name the headings of a page as GitHub and the site do."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {
        re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())
        for heading in HEADING.findall(text)
    }


def definitions(file: Path) -> set[str]:
    """Name what a file of Python defines, members of classes with that of the class."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{member.name}"
                for member in node.body
                if isinstance(member, ast.FunctionDef)
            }
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_existing_headings_and_definitions(page):
    for path, fragment in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path) if path else page
        if fragment and target.suffix in (".md", ".py"):
            there = anchors(target) if target.suffix == ".md" else definitions(target)
            assert fragment in there, f"{path}#{fragment}"


OF_ALGORITHMS = sorted((ROOT / "docs" / "algorithms").glob("*.md"))


def rows(page: Path, heading: str) -> list[list[str]]:
    """Read the cells of the first table under a heading, without its head."""
    _, _, under = page.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    lines = [line for line in under.partition("\n## ")[0].splitlines() if line.startswith("|")]
    assert len(lines) > 2, f"{page.name} has no table under {heading}"
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("page", OF_ALGORITHMS, ids=name)
def test_algorithm_settings_in_docs_match_the_code(page):
    kind = algorithms()[page.stem]
    config, table = kind(defaults="paper"), rows(page, "## Settings")
    read = set(kind.model_fields) - {"algorithm", *kind.unread}
    own = set(vars(kind)["__annotations__"]) & read
    assert own <= {key.strip("`") for key, *_ in table}
    for key, value, _ in table:
        key, value = key.strip("`"), yaml.safe_load(value)
        real = list(config.hidden_sizes) if key == "hidden" else config.model_dump(mode="json")[key]
        assert value == (pytest.approx(real, rel=1e-3) if isinstance(real, float) else real), key


@pytest.mark.parametrize("page", OF_ALGORITHMS, ids=name)
def test_algorithm_results_in_docs_match_the_generated_page(page):
    if "\n## Results\n\nDQN itself has not been trained" in page.read_text(encoding="utf-8"):
        return
    for _, method, _, steps, training, value, source in rows(page, "## Results"):
        made = page.parent / re.search(r"\(([^)]+)\)", source)[1]
        matching = [
            line
            for line in made.read_text(encoding="utf-8").splitlines()
            if line.startswith(f"| {method} |")
        ]
        shown = [f" {number} " for number in (steps, training, value) if number != "-"]
        assert any(all(number in line for number in shown) for line in matching), (
            method,
            value,
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built without a warning."""
    pytest.importorskip("mkdocs", reason="the site is built where the extra docs is installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_site_loads_no_external_resources(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES) - 2
    for page in pages:
        loaded = re.findall(
            r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=\"(https?:[^\"]*)",
            page.read_text(encoding="utf-8"),
        )
        assert not loaded, f"{page.name} loads {loaded}"


SHRUNK = """
[...document.querySelectorAll("svg.formula")].map(svg => [svg.getAttribute("aria-label"),
  svg.getBoundingClientRect().width, parseFloat(svg.style.width) * parseFloat(getComputedStyle(svg).fontSize)])
.concat([...document.querySelectorAll("img.plot")].map(img => [img.src, img.width, 0.32 * img.naturalWidth]))
.filter(([, width, least]) => width < 0.99 * least)
"""
"""Formulas and plots that are smaller than can be read."""


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_pages_are_readable_on_a_phone(site, tmp_path):
    with browser(tmp_path) as chromium:
        for page in sorted(site.rglob("*.html")):
            if "source" in page.relative_to(site).parts:
                continue
            chromium.open(page.as_uri(), PHONE)
            assert chromium.ask(f"{CUT}('article')") == [], page.name
            assert chromium.ask(SHRUNK) == [], page.name


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_plots_are_readable_in_dark_mode(site, tmp_path):
    with browser(tmp_path) as chromium:
        for name in ("figure6.html", "learning.html", "validation.html", "agents.html"):
            for width in (PHONE, DESKTOP):
                chromium.open((site / name).as_uri(), width, dark=True)
                for kind, largest in (("img.plot", 0.2), ("img.film", 0.7)):
                    if not chromium.ask(f"!!document.querySelector('{kind}')"):
                        continue
                    paper, contrast = paper_and_contrast(chromium.picture(kind))
                    assert paper < largest, (name, kind)
                    assert contrast > 4.5, (name, kind)


@pytest.mark.slow
def test_notebooks_run_from_top_to_bottom(tmp_path):
    nbformat = pytest.importorskip(
        "nbformat", reason="notebooks run where the extra docs is installed"
    )
    from nbclient import NotebookClient

    notebooks = sorted((ROOT / "docs").rglob("*.ipynb"))
    assert notebooks
    for path in notebooks:
        notebook = nbformat.read(path, as_version=4)
        counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
        assert all(b - a == 1 for a, b in pairwise(counts)), (
            f"{path.name} was not committed as it ran from its top"
        )
        NotebookClient(
            notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
        ).execute()
