"""Damage to every kind of file of a run folder gives an error or the same content; nothing is lost silently."""

import json
import os
import shutil
import zipfile

import gymnasium
import numpy as np
import pytest
import yaml
from shell import RESULT

from cases.yaml_files import parse_yaml
from coupling.errors import ConfigError, RunError
from coupling.files import reporting_damage
from coupling.film.curves import plot_runs
from coupling.pages.metrics import _COUNTERS, _GAUGES, _OF_WORKERS, prometheus_text
from coupling.pages.report import _evaluations, _runs, write_report
from coupling.run.folder import RunFolder, episodes_table, statistics_table
from coupling.run.log import RunLog
from coupling.run.policies import load_controller
from coupling.run.run import _evaluated, load_learner
from coupling.run.status import read_status, write_status
from coupling.run.tables import print_status
from coupling.service.experience import Closed, ExperienceLog, Opened, Taken
from coupling.settings.config import load_config
from rl_agent.learner import Learner

FLIPS = 40
RECORDS = [Opened(7, 8, 0, 0, 2), *(Taken([bytes([n]) * 40]) for n in range(20)), Closed(7)]
EPISODES = [
    {"environment_steps": n, "agent": 0, "return": 0.5 * n, "length": 7, "terminated": 1}
    for n in range(1, 40)
]
STATUS = dict.fromkeys((*_COUNTERS, *_GAUGES), 3) | {
    "run": "run", "state": "finished", "epoch": 0, "environment_steps": 40, "mean_return": 1.5, "agents": {"0": 40},
    "absent": [1], "deaths": [{"time": 1.0, "slot": 0, "reason": "worker 0 died"}],
    "warnings": [{"time": 2.0, "text": "a warning"}],
    "workers": [
        dict.fromkeys(_OF_WORKERS, 2) | {"slot": 0, "agents": [0, 1], "pid": 5, "host": "here", "failure": ""}
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A small run folder with all files of a training."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    words = [
        "env=small/none",
        "agent.hidden=[4]",
        "agent.buffer_size=256",
        "agent.batch_size=8",
        "agent.learning_starts=64",
    ]
    config = load_config(None, [*words, "workers.agents=2", "workers.processes=1"])
    box = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    learner = Learner(config.agent, box, box, agents=2, seed=0)
    rng, agents = np.random.default_rng(3), np.arange(2)
    learner.begin(agents, rng.normal(size=(2, 3)))
    for _ in range(40):
        learner.act(agents)
        learner.observe(
            agents, rng.normal(size=2), *np.zeros((2, 2), bool), rng.normal(size=(2, 3))
        )
    folder.create(config, lambda: learner.save(folder.checkpoint))
    folder.unlock()
    log = RunLog(folder, 0, 0, 10_000)
    log.episodes(EPISODES)
    for n in range(5):
        log.statistics({"environment_steps": 1000 * (n + 1), "gradient_steps": n})
    log.close(finished=True)
    write_status(folder.status, STATUS)
    after = RESULT | {"baselines": {"zero": RESULT}}
    folder.evaluation.write_text(json.dumps({"before": RESULT, "drawing": RESULT, "after": after}))
    folder.note_start(0, draws_itself=False, launcher="local")
    experience = ExperienceLog(folder.experience)
    experience.begin(1)
    for record in RECORDS:
        experience.append(record)
    experience.close()
    return folder


@pytest.fixture
def copy(sound, tmp_path):
    def fresh_copy():
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(sound.path, tmp_path / "run")
        return RunFolder(tmp_path / "run")

    return fresh_copy


def damaged(path, seed):
    """Damage a file again and again: one bit, its end, all of it, a piece of zeros, a piece of noise."""
    content, rng = path.read_bytes(), np.random.default_rng(seed)
    assert content
    for _ in range(FLIPS):
        flipped = bytearray(content)
        flipped[rng.integers(len(content))] ^= 1 << rng.integers(8)
        yield bytes(flipped)
    for _ in range(FLIPS // 4):
        yield content[: rng.integers(len(content))]
        begin, length = rng.integers(len(content)), rng.integers(1, 40)
        yield content[:begin] + bytes(length) + content[begin + length :]
        yield content[:begin] + rng.bytes(length) + content[begin + length :]
    yield b""


def outcome(read):
    """Return what a reader returns, or its error message."""
    try:
        return read()
    except (ConfigError, RunError) as error:
        return str(error)


def test_a_damaged_configuration_is_refused(copy):
    folder = copy()
    before, text = folder.config(), folder.config_file.read_text()
    refused = 0
    for content in damaged(folder.config_file, 1):
        folder.config_file.write_bytes(content)
        got = outcome(folder.config)
        # a flipped bit in the first line may destroy the checksum itself
        assert isinstance(got, str) or got == before, content
        refused += isinstance(got, str)
    assert refused > FLIPS // 2
    folder.config_file.write_text(text.replace("seed: ", "seed:  "))
    assert "remove its first line" in outcome(folder.config)
    folder.config_file.write_text(text.partition("\n")[2])
    assert folder.config() == before


@pytest.mark.slow
def test_damaged_checkpoint_is_refused_or_reads_the_same(copy):
    folder = copy()
    arrays, meta = load_learner(folder).contents()
    for content in damaged(folder.checkpoint, 2):
        folder.checkpoint.write_bytes(content)
        got = outcome(lambda: load_learner(folder))
        if not isinstance(got, str):
            again, notes = got.contents()
            assert notes == meta
            assert all(np.array_equal(again[name], arrays[name]) for name in arrays)
        outcome(lambda: load_controller(folder, deterministic=True, seed=0))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda file: file.unlink(), "it is not there"),
        (lambda file: os.truncate(file, 3000), "it is damaged: File is not a zip file"),
        (lambda file: os.truncate(file, 0), "it is damaged: File is not a zip file"),
    ],
)
def test_missing_or_truncated_checkpoint_gives_one_error(copy, spoil, why):
    folder = copy()
    spoil(folder.checkpoint)
    sentence = f"checkpoint {folder.checkpoint} cannot be used: {why}"
    assert outcome(lambda: load_learner(folder)) == sentence
    assert outcome(lambda: load_controller(folder, deterministic=True, seed=0)) == sentence


@pytest.mark.parametrize(
    "notes", [b"[]", b'"x"', b"{}", b"[" * 100_000, b"\xff", b'{"format": []}']
)
def test_checkpoint_with_invalid_metadata_is_refused(copy, notes):
    folder = copy()
    with np.load(folder.checkpoint) as file:
        arrays = dict(file) | {"meta": np.frombuffer(notes, np.uint8)}
    np.savez(folder.checkpoint, **arrays)
    assert "cannot be used" in outcome(lambda: load_learner(folder))
    assert "cannot be used" in outcome(lambda: load_controller(folder, deterministic=True, seed=0))


def test_array_header_claiming_nine_tebibytes_allocates_no_memory(copy):
    folder = copy()
    with zipfile.ZipFile(folder.checkpoint) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = "weights.npy" if "weights.npy" in members else next(n for n in members if "memory" in n)
    header = np.lib.format.magic(1, 0)
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1236950581248,), }\n"
    members[name] = header + len(text).to_bytes(2, "little") + text
    with zipfile.ZipFile(folder.checkpoint, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    assert "9895604649984 bytes" in outcome(lambda: load_learner(folder))


def test_damaged_experience_log_loses_nothing_silently(copy):
    folder = copy()
    log = folder.experience / "00000001.log"
    for content in damaged(log, 3):
        log.write_bytes(content)
        said = []
        records = ExperienceLog(folder.experience).records_since(1, said.append)
        got = outcome(lambda records=records: list(records))
        if isinstance(got, str):
            assert "would be lost" in got
            assert log.read_bytes() == content
        elif got != RECORDS:
            assert got == RECORDS[: len(got)]
            # a log cut at the end of a record reads as if nothing had followed
            assert (
                said or content == (copy().experience / "00000001.log").read_bytes()[: len(content)]
            )


@pytest.mark.slow
@pytest.mark.parametrize("table", ["episodes", "statistics"])
def test_damaged_tables_are_reported_and_kept(copy, table):
    folder = copy()
    path = getattr(folder, table)
    rows = len(path.read_bytes().splitlines()) - 1
    for number, content in enumerate(damaged(path, 4)):
        path.write_bytes(content)
        outcome(episodes_table(folder).read)
        outcome(statistics_table(folder).read)
        if number % 10 == 0:  # plots are slow
            outcome(lambda: plot_runs([folder], folder.path / "curves.png"))
            outcome(lambda: write_report([folder], folder.path / "report.html"))
        said = []
        RunLog(folder, 10**9, 10**9, 10_000, said.append)
        left = max(0, len(path.read_bytes().splitlines()) - 1) if path.exists() else 0
        whole = content.count(b"\n") == rows + 1
        assert left == rows or said or not whole
        if said:
            assert path.with_name(f"{path.name}.damaged").read_bytes() == content


@pytest.mark.parametrize("key", ["state", "pid", "written"])
def test_status_without_a_required_key_is_damaged(copy, key):
    folder = copy()
    status = json.loads(folder.status.read_text())
    del status[key]
    folder.status.write_text(json.dumps(status))
    assert outcome(lambda: read_status(folder.status)) == (
        f"{folder.status} is damaged: KeyError: '{key}'"
    )


@pytest.mark.slow
def test_damaged_status_or_evaluation_gives_an_error(copy, capsys):
    folder = copy()

    def look():
        status = read_status(folder.status)
        with reporting_damage(folder.status):
            print_status(status)
            return prometheus_text(status)

    assert "flowsim_up" in look()
    for number, content in enumerate(damaged(folder.status, 5)):
        folder.status.write_bytes(content)
        outcome(look)
        if number % 10 == 0:
            outcome(lambda: write_report([folder], folder.path / "report.html"))
        assert "\x1b" not in capsys.readouterr().out
    folder = copy()
    for number, content in enumerate(damaged(folder.evaluation, 6)):
        folder.evaluation.write_bytes(content)
        outcome(lambda: _evaluated(folder))
        outcome(lambda: _evaluations([folder]))
        if number % 10 == 0:
            outcome(lambda: write_report([folder], folder.path / "report.html"))


def test_damaged_list_of_starts_is_still_appended_to(copy):
    folder = copy()
    for content in damaged(folder.starts, 7):
        folder.starts.write_bytes(content)
        folder.note_start(5, draws_itself=False, launcher="local")
        assert folder.starts.read_bytes().startswith(content)
        assert json.loads(folder.starts.read_bytes().splitlines()[-1])["environment_steps"] == 5
        folder.starts.write_bytes(content)
        outcome(lambda: _runs([folder]))


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [*x]", "a: &x {b: *x}", "[" * 20_000, "a: !!binary 'x'", "? [1]\n: 2",
        "\n".join(["a0: &a0 [1]", *(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]" for n in range(60))]),
        f"a: {'1' * 5000}",
    ],
)  # fmt: skip
def test_impossible_yaml_raises_a_yaml_error(text):
    with pytest.raises(yaml.YAMLError):
        parse_yaml(text)


def test_yaml_aliases_are_accepted():
    assert parse_yaml("a: &x [1, {b: 2}]\nc: [*x, *x]")["c"] == [[1, {"b": 2}]] * 2
