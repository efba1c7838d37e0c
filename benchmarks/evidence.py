"""Regenerate the evidence on one clean commit: validation, chaos, fuzzing, benchmarks and the demo.

    make evidence                                  # all parts missing for this commit, then results and pages
    python benchmarks/evidence.py --only demo      # selected parts
    python benchmarks/evidence.py --list           # the parts and the commit of each result
    python benchmarks/evidence.py --page           # only rewrite docs/studies/evidence.md

Each part writes into runs/evidence/COMMIT, which git ignores, so the tree stays clean while the others run. Completed
parts are kept after an interruption. A part counts only if the tree is clean and at the same commit before and after
it. At the end, the results of the completed parts replace those in benchmarks/results, the pages are written, and
benchmarks/results/evidence.json and docs/studies/evidence.md record the commit of each result.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

from benchmarks import studies  # noqa: E402
from coupling.origin import machine  # noqa: E402
from flowsim.validation import CASES  # noqa: E402

RECORD = Path("benchmarks/results/evidence.json")
PAGE = Path("docs/studies/evidence.md")
LONGEST = 3600.0  # seconds that a part may take
PYTHON = sys.executable
FLOWSIM = str(Path(PYTHON).parent / "flowsim")


class EvidenceError(Exception):
    """The evidence cannot be produced; the message is one sentence."""


@dataclass(frozen=True)
class Part:
    """One command whose results are part of the evidence.

    Attributes
    ----------
    name
        Unique name; parts with the same prefix before a slash share one row of the page.
    command
        Command to run in the repository; ``{out}`` is the output folder, ``{short}`` the first 12 digits of the commit.
    keeps
        Files that it writes and their destinations in the repository.
    shown
        Pages and sections that show the results.
    stdout
        File to which its standard output is written.
    """

    name: str
    command: tuple[str, ...]
    keeps: tuple[tuple[str, str], ...]
    shown: str
    stdout: str | None = None


def _validation(case: str) -> Part:
    file = f"validation/{case}.json"
    command = (FLOWSIM, "validate", "--case", case, "-o", "{out}/validation")
    return Part(f"validation/{case}", command, (("{out}/" + file, f"benchmarks/results/{file}"),),
                "docs/studies/validation.md; docs/results.md; README.md")  # fmt: skip


def _bench(what: str, *besides: str) -> Part:
    file = f"bench/{what}.json"
    shown = "; ".join(("docs/studies/speed.md", *besides))
    return Part(f"bench/{what}", (FLOWSIM, "bench", what, "--json", "--full"),
                (("{out}/" + file, f"benchmarks/results/{file}"),), shown, "{out}/" + file)  # fmt: skip


def _script(script: str, file: str, shown: str, *options: str) -> Part:
    command = (PYTHON, f"benchmarks/{script}.py", *options)
    return Part(
        script.rpartition("/")[2],
        command,
        (("{out}/" + file, f"benchmarks/results/{file}"),),
        shown,
    )


_DEMO = "runs/evidence-{short}/"

PARTS: tuple[Part, ...] = (
    *map(_validation, CASES),
    _script("service/chaos", "coupling/chaos.json",
            "docs/studies/chaos.md; docs/results.md; docs/service.md; README.md", "--seconds", "300",
            "-o", "{out}/coupling"),
    _script("service/fuzz_protocol", "coupling/fuzz.json", "docs/security.md", "--frames", "200000",
            "--by-sockets", "10000", "-o", "{out}/coupling/fuzz.json"),
    _bench("solver", "docs/results.md", "README.md"),
    _bench("tasks"),
    _script("speed/train_rate", "bench/training.json", "docs/studies/speed.md", "-o", "{out}/bench/training.json"),
    _bench("learner"),
    _bench("coupling"),
    # pip's output is not evidence, so the installation prints to stderr
    Part("demo", ("sh", "-c", "make --no-print-directory install >&2 && "
                  "make --no-print-directory demo DEMO=evidence-{short}"),
         (("{out}/demo/output.txt", "benchmarks/results/demo/output.txt"),
          *((_DEMO + name, f"benchmarks/results/demo/{name}")
            for name in ("config.yaml", "episodes.csv", "evaluation.json", "starts.jsonl")),
          (_DEMO + "curves.png", "docs/images/demo.png")),
         "docs/results.md", "{out}/demo/output.txt"),
)  # fmt: skip

PAGES: tuple[tuple[str, ...], ...] = (
    (
        FLOWSIM,
        "validate",
        "-o",
        "benchmarks/results/validation",
        "--page",
        "docs/studies/validation.md",
    ),
    (PYTHON, "benchmarks/service/chaos.py", "--page"),
    (PYTHON, "benchmarks/speed/speed.py"),
)
"""Commands that write the pages from the results."""


def clean_commit(repository: Path) -> str:
    """Return the commit of a checkout without changes.

    Raises
    ------
    EvidenceError
        If a file is changed or untracked, or if this is not a checkout.
    """
    head, status = _git(repository, "rev-parse", "HEAD"), _git(repository, "status", "--porcelain")
    if head.returncode or status.returncode:
        raise EvidenceError(
            f"{repository} is no git checkout, so evidence could not name its commit"
        )
    commit, changed = head.stdout.strip(), status.stdout.strip()
    if changed:
        raise EvidenceError(
            f"evidence is of a commit, and this tree is changed: {', '.join(changed.splitlines()[:5])}"
        )
    return commit


def _same_code(repository: Path, commit: str) -> bool:
    """Return whether only results, pages and tests have changed since a commit."""
    others = (":!benchmarks/results", ":!docs", ":!README.md", ":(exclude,glob)tests/**/test_*.py")
    return _git(repository, "diff", "--quiet", commit, "HEAD", "--", ".", *others).returncode == 0


def _git(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["git", *words]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=60)


def gather(
    parts: Iterable[Part],
    repository: Path,
    work: Path,
    say: Callable[[str], None],
    expected: dict[str, float],
) -> list[str]:
    """Run the parts that have no result yet for this commit or for one with the same code.

    Parameters
    ----------
    parts
        Parts, run in this order.
    repository
        A clean checkout.
    work
        Folder in which a folder for the commit is created, with the outputs and ``done.json``.
    say
        Prints a line.
    expected
        Seconds that each part took last time, used to estimate the remaining time.

    Returns
    -------
    list of str
        The parts that failed.

    Raises
    ------
    EvidenceError
        If the tree is not clean, or changes during the run.
    """
    commit = clean_commit(repository)
    out = work / commit
    out.mkdir(parents=True, exist_ok=True)
    done = _read(out / "done.json")
    current = {
        name
        for name, item in _read(repository / RECORD).items()
        if _same_code(repository, item["commit"])
    }
    todo = [part for part in parts if part.name not in done and part.name not in current]
    failed = []
    for number, part in enumerate(todo):
        left = sum(expected.get(other.name, 60.0) for other in todo[number:])
        say(
            f"{number + 1}/{len(todo)} {part.name} (all that is left: about {left / 60:.0f} minutes)"
        )
        record = _run(part, repository, out, commit)
        if clean_commit(repository) != commit:
            raise EvidenceError(
                "the checkout moved to another commit on the way: what the last part found is dropped"
            )
        if record is None:
            failed.append(part.name)
            say(f"{part.name} failed: {out / 'logs'} has what it said")
            continue
        done[part.name] = record
        _write(out / "done.json", done)
    return failed


def _run(part: Part, repository: Path, out: Path, commit: str) -> dict[str, Any] | None:
    """Run a part and return its record, or None if it failed or did not write all its files."""
    names = {"out": str(out), "short": commit[:12]}
    command = [word.format(**names) for word in part.command]
    log = out / "logs" / (part.name.replace("/", "-") + ".txt")
    stdout = Path(part.stdout.format(**names)) if part.stdout else log
    for file in (log, stdout):
        file.parent.mkdir(parents=True, exist_ok=True)
    # left over from an interrupted demo
    shutil.rmtree(repository / _DEMO.format(**names), ignore_errors=True)
    began, clock = time.strftime("%Y-%m-%dT%H:%M:%S%z"), time.monotonic()
    with log.open("w") as errors, stdout.open("w") if stdout != log else errors as output:
        try:
            code = subprocess.run(
                command, cwd=repository, stdout=output, stderr=errors, timeout=LONGEST
            ).returncode
        except subprocess.TimeoutExpired:
            code = 124
    files = [(repository / source.format(**names), target) for source, target in part.keeps]
    if code or not all(file.exists() for file, _ in files):
        return None
    for file, target in files:
        kept = out / "kept" / target
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, kept)
    return {
        "commit": commit,
        "command": _as_typed(command, str(out)),
        "began": began,
        "seconds": round(time.monotonic() - clock, 1),
        "machine": machine(),
        "files": [target for _, target in part.keeps],
        "shown": part.shown,
    }


def _as_typed(command: Iterable[str], out: str) -> str:
    """Return a command as typed in a shell, with OUT in place of the output folder."""
    words = (
        word.replace(out, "OUT").replace(str(Path(PYTHON).parent) + "/", "") for word in command
    )
    return " ".join(words)


def publish(repository: Path, work: Path, pages: Iterable[tuple[str, ...]]) -> None:
    """Copy the results of this commit's completed parts into the repository and write the pages from them."""
    out = work / clean_commit(repository)
    done = _read(out / "done.json")
    if not done:
        return
    for record in done.values():
        for target in record["files"]:
            (repository / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(out / "kept" / target, repository / target)
    _write(repository / RECORD, _read(repository / RECORD) | done)
    for command in pages:
        subprocess.run(command, cwd=repository, check=True, timeout=600)
    shown = repository / PAGE
    shown.parent.mkdir(parents=True, exist_ok=True)
    shown.write_text(page(repository))


def page(repository: Path) -> str:
    """Return docs/studies/evidence.md, which lists the commit of the results of each part and each long run."""
    record = _read(repository / RECORD)
    # the pages that show the numbers and the path of a script may change without another run
    shown = {name: item["shown"] for name, item in record.items()}
    shown |= {part.name: part.shown for part in PARTS}
    scripts = {
        part.name: _as_typed(part.command, "{out}") for part in PARTS if part.command[0] == PYTHON
    }
    lines = [
        "# The commit of each result",
        "",
        "This page is written by `make evidence`; do not edit it.",
        "`make evidence` runs every part of the first table on one commit and refuses a working tree with changes.",
        "A part that could not finish keeps its older result, and its row names the older commit.",
        "",
        "| part | shown in | command | commit | started | minutes |",
        "| --- | --- | --- | --- | --- | --: |",
    ]
    for name, names in _rows(record).items():
        shared = [record[each] for each in names]
        first = shared[0]
        commits = ", ".join(sorted({f"`{item['commit'][:12]}`" for item in shared}))
        command = scripts.get(name, first["command"]) if len(shared) == 1 else "flowsim validate"
        minutes = sum(item["seconds"] for item in shared) / 60
        began = min(item["began"] for item in shared)[:16].replace("T", " ")
        lines.append(
            f"| {name} | {shown[names[0]]} | `{command}` | {commits} | {began} | {minutes:.1f} |"
        )
    lines += [
        "",
        "Long runs are not repeated each time. This table lists the commits at which they were made.",
        "*Hours* is the sum of the durations of the trainings, most of which ran two at a time on a machine with two "
        "cores; it is empty for results that do not record a duration.",
        "",
    ]
    lines += ["| results | number of results | hours | commits |", "| --- | --: | --: | --- |"]
    known = {target for item in record.values() for target in item["files"]}
    for folder, found in sorted(_long_runs(repository, known).items()):
        commits = ", ".join(f"`{commit}`" for commit in sorted(found.commits))
        hours = f"{found.seconds / 3600:.1f}" if found.seconds else ""
        lines.append(f"| `{folder}` | {found.number} | {hours} | {commits} |")
    return "\n".join(lines) + "\n"


def _rows(record: dict[str, Any]) -> dict[str, list[str]]:
    """Return the parts of each row; all validation cases share one row."""
    rows: dict[str, list[str]] = {}
    for name in sorted(record):
        rows.setdefault("validation" if name.startswith("validation/") else name, []).append(name)
    return rows


class LongRuns(NamedTuple):
    """Results of one study or folder: their number, their commits, and the sum of their durations where recorded."""

    number: int = 0
    commits: frozenset[str] = frozenset()
    seconds: float = 0.0

    def with_result(self, commits: Iterable[str], seconds: float = 0.0) -> LongRuns:
        """Return the same with one more result."""
        return LongRuns(self.number + 1, self.commits.union(commits), self.seconds + seconds)


def _long_runs(repository: Path, known: set[str]) -> dict[str, LongRuns]:
    """Return the long runs of each study or folder, except the results of the parts."""
    found: defaultdict[str, LongRuns] = defaultdict(LongRuns)
    results = repository / RECORD.parent
    for file in sorted(results.rglob("*.json*")):
        if str(file.relative_to(repository)) in known:
            continue
        lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        commits = {
            item["commit"]
            for item in map(json.loads, lines)
            if isinstance(item, dict) and item.get("commit")
        }
        if commits:
            folder = str(file.parent.relative_to(results))
            named = {
                commit[:12] + (" with changes" if commit.endswith("-dirty") else "")
                for commit in commits
            }
            found[folder] = found[folder].with_result(named)
    for file in sorted(results.glob("*.parquet")):
        for row in studies.read(file):
            folder = str((Path(file.stem) / row["name"]).parent)
            seconds = float(row.get("wall_seconds") or 0.0)
            found[folder] = found[folder].with_result(studies.commits_of(row), seconds)
    return found


def _read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return content


def _write(file: Path, content: dict[str, Any]) -> None:
    beside = file.with_name(f".{file.name}")
    beside.write_text(json.dumps(content, indent=1) + "\n")
    beside.replace(file)


def main() -> int:
    """Run the missing parts and publish the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", metavar="PART", help="parts, or what their names begin with"
    )
    parser.add_argument(
        "--list", action="store_true", help="say which commit each part is of, and run nothing"
    )
    parser.add_argument("--page", action="store_true", help=f"only write {PAGE} again")
    options = parser.parse_args()
    record = _read(ROOT / RECORD)
    if options.page:
        (ROOT / PAGE).write_text(page(ROOT))
        return 0
    if options.list:
        for part in PARTS:
            print(f"{part.name}: {record.get(part.name, {}).get('commit', 'not yet')}")
        return 0
    chosen = [
        part for part in PARTS if not options.only or part.name.startswith(tuple(options.only))
    ]
    expected = {name: item["seconds"] for name, item in record.items()}
    try:
        failed = gather(
            chosen, ROOT, ROOT / "runs" / "evidence", lambda text: print(text, flush=True), expected
        )
        publish(ROOT, ROOT / "runs" / "evidence", PAGES)
    except EvidenceError as error:
        print(f"evidence: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "evidence: interrupted; the finished parts are kept, and the next call goes on",
            file=sys.stderr,
        )
        return 130
    print(f"{PAGE} says which commit each part is of; commit it with the results")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
