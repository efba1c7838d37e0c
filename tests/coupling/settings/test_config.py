from pathlib import Path
from types import NoneType

import pytest

from cases.error_messages import all_keys
from cases.yaml_files import declared_at, dump_yaml, is_text, parse_yaml
from coupling.errors import ConfigError
from coupling.files import expand_path
from coupling.settings.config import RunConfig, dump_config, load_config
from coupling.settings.content import apply_overrides, shipped_presets

YAML = """
env: Pendulum-v1
agent: {learning_starts: 100, buffer_size: 1000, learning_rate: 1e-4}
"""


@pytest.fixture
def preset(tmp_path):
    file = tmp_path / "preset.yaml"
    file.write_text(YAML)
    return str(file)


def test_numbers_may_use_scientific_notation(preset):
    assert load_config(preset).agent.learning_rate == 1e-4
    assert load_config(preset, ["agent.learning_rate=3E-3"]).agent.learning_rate == 3e-3
    assert load_config(preset, ["env_options.x=1e-5"]).env_options["x"] == 1e-5


def test_overrides_reach_every_section(preset):
    config = load_config(
        preset, ["env=Hopper-v5", "agent=vracer", "workers.agents=6", "env_options.a.b=[1, 2]"]
    )
    assert config.env == "Hopper-v5"
    assert config.workers.agents_of_each() == [3, 3]
    assert config.env_options == {"a": {"b": [1, 2]}}
    assert config.agent.algorithm == "vracer"


def test_keys_of_a_section_hold_wherever_the_section_is_given(preset):
    words = ["agent.target_entropy=-2", "agent=sac", "agent.gamma=0.9"]
    agent = load_config(preset, words).agent
    assert (agent.algorithm, agent.target_entropy, agent.gamma) == ("sac", -2.0, 0.9)
    with pytest.raises(ConfigError, match=r"unknown key 'agent\.ent_coef'"):
        load_config(preset, ["agent.ent_coef=auto", "agent=sac"])


def test_the_resolved_configuration_reads_back_equal(preset, tmp_path):
    config = load_config(preset, ["agent.hidden=[16, 16]", "run.seed=3"])
    (tmp_path / "config.yaml").write_text(dump_config(config))
    assert load_config(str(tmp_path / "config.yaml")) == config


@pytest.mark.parametrize("name", shipped_presets())
def test_every_shipped_preset_is_valid_by_name_and_by_path(name):
    assert load_config(name) == load_config(f"cases/{name}.yaml")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("agent.gama=0.9", "unknown key 'agent.gama': did you mean 'agent.gamma'?"),
        ("gamma=0.9", "unknown key 'gamma': did you mean 'agent.gamma'?"),
        ("run.qqqq=1", "unknown key 'run.qqqq': allowed are .*steps.*seed"),
        ("agent=dqm", r"agent\.algorithm = 'dqm': did you mean 'dqn'\?"),
        ("agent=sacc", r"agent\.algorithm = 'sacc': did you mean 'sac'\?"),
        ("agent=qqqq", r"agent\.algorithm = 'qqqq': allowed are 'a3c', 'trust-a3c'"),
        (
            "agent.sampler=per",
            "agent.sampler = 'per': prioritised experience replay is 'proportional' or 'rank'",
        ),
        ("agent.sampler=rnak", r"agent\.sampler = 'rnak': did you mean 'rank'\?"),
        ("workers.launcher=slrum", r"workers\.launcher = 'slrum': did you mean 'slurm'\?"),
        ("g=9.8", r"unknown key 'g': did you mean 'env_options\.g=9\.8'\?"),
        ("env=reach.py", r"env = 'reach.py': a module has no \.py: did you mean 'reach:ID'\?"),
        (
            "CartPole-v1",
            "'CartPole-v1' is not of the form key=value: did you mean 'env=CartPole-v1'",
        ),
        ("run.folder=$NOT_SET_HERE/runs", r"the variable \$NOT_SET_HERE is not set"),
        ("agent.horizn=9", "unknown key 'agent.horizn': did you mean 'agent.horizon'?"),
        (
            "agent.horizon=9",
            "agent: horizon = 9 is a setting of a3c and trust-a3c and ppo, which algorithm = vracer does not read",
        ),
        ("env_options.x=.inf", r": env_options\.x = inf: must be a finite number"),
        ("training_options.x=.nan", r"training_options\.x = nan: must be a finite number"),
        ("env_options={a: [1, {b: -.inf}]}", r"env_options\.a\.1\.b = -inf: must be a finite"),
        (
            "env_options.x={1: 0.5}",
            r"env_options\.x\.1 has a key that is not text: write '1' in quotes",
        ),
        ("env_options.x=!!binary aGk=", r"env_options\.x = b'hi': must be a number, text, true"),
        (
            "env_options.x=!!timestamp 2020-01-01",
            r"env_options\.x = datetime\.date.*: must be a number",
        ),
        ("env_options.x=!!set {a}", r"env_options\.x = {'a'}: must be a number, text"),
        (
            "workers.step_timeout=.inf",
            r"workers\.step_timeout = inf: input should be a finite number",
        ),
        ("workers.dead_after=.inf", r"workers\.dead_after = inf: input should be a finite number"),
        ("workers.wait=.inf", r"workers\.wait = inf: input should be a finite number"),
        (
            "run.checkpoint_every=.inf",
            r"run\.checkpoint_every = inf: input should be a finite number",
        ),
        ("agent.annealing=.inf", r"agent\.annealing = inf: input should be a finite number"),
        ("agent.c_max_scale=.inf", r"agent\.c_max_scale = inf: input should be a finite number"),
        ("workers.ray.cpus=.inf", r"workers\.ray\.cpus = inf: input should be a finite number"),
        ("agent.gamma=2", r"agent\.gamma = 2: input should be less than or equal to 1"),
        ("run.steps=many", r"run\.steps = 'many': input should be a valid integer"),
        ("workers.processes=30", r"workers\.processes = 30 is more than workers\.agents = 24"),
        ("run.name=a/b", r"run\.name = 'a/b': a run's name has at most 100 characters: letters"),
        (f"run.name={'a' * 101}", "a run's name has at most 100 characters: letters"),
        ("env=mine: Reach-v0", "env: must be one word .* such as mine:Reach-v0"),
        ("env=mine:", "env: must be one word .* such as mine:ID"),
        ("steps", "'steps' is not of the form key=value"),
        ("run.steps.x=1", r"run\.steps: input should be a valid integer"),
    ],
)
def test_invalid_settings_give_a_one_line_error(preset, word, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        load_config(preset, [word])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere.yaml", "nowhere.yaml does not exist"),
        ("d_cylinder_wake/quik", "did you mean 'd_cylinder_wake/quick'"),
        ("d_cylinder_wake", r"did you mean 'd_cylinder_wake/quick'\?"),
        ("cases/swimmer_school/", r"did you mean 'swimmer_school/quick'\?"),
        ("d_cylinder_wak", r"did you mean 'd_cylinder_wake/quick'\?"),
        ("classic", "'classic': give one of classic/cartpole, classic/pendulum$"),
        ("cartpole", r"did you mean 'classic/cartpole'\?"),
        ("wak", r"did you mean 'd_cylinder_wake/quick'\?"),
        ("CartPole-v1", r"did you mean 'env=CartPole-v1'\?"),
        ("mine:Task-v0", r"did you mean 'env=mine:Task-v0'\?"),
        ("FrozenLake", r"did you mean 'env=FrozenLake-v1'\?"),
        ("nothing-like-it", "give a YAML file, or a name that `flowsim presets` lists, or env=ID$"),
    ],
)
def test_missing_preset_gives_a_one_line_error(name, sentence):
    with pytest.raises(ConfigError, match=sentence):
        load_config(name)


def test_folder_of_a_run_is_not_called_a_missing_preset(tmp_path):
    run = tmp_path / "one run"
    run.mkdir()
    (run / "config.yaml").write_text(YAML)
    with pytest.raises(ConfigError, match=r"is the folder of a run: `flowsim resume '.*one run'`"):
        load_config(str(run))


def test_wrong_value_is_reported_before_a_missing_key():
    with pytest.raises(
        ConfigError, match=r"agent.algorithm = 'sacc': did you mean 'sac'\? \(and 1 more\)"
    ):
        load_config(None, ["agent=sacc"])
    with pytest.raises(ConfigError, match=r"key 'env' is missing$"):
        load_config(None, ["agent=sac"])


@pytest.mark.parametrize("text", ["env: a\nenv: b\n", "[1, 2]", "env: [", "agent: {}\n"])
def test_bad_file_gives_a_one_line_error(tmp_path, text):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(str(tmp_path / "bad.yaml"))
    assert "\n" not in str(caught.value)


WORDS = [
    "123",
    "007",
    "1e5",
    "2024-01-01",
    "1:30",
    "no",
    "on",
    "true",
    "0x10",
    "~",
    "a: b",
    "@here",
]
TEXTS = [
    key
    for key in all_keys(RunConfig)
    if str in declared_at(RunConfig, key) and is_text(declared_at(RunConfig, key))
]


def test_text_settings_are_known():
    assert {"env", "run.name", "run.folder", "workers.bind", "workers.slurm.partition"} <= set(
        TEXTS
    )
    assert not {"run.steps", "agent.gamma", "workers.outbox", "env_options"} & set(TEXTS)


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize("word", WORDS)
def test_text_settings_stay_text(key, word, tmp_path):
    """On the command line, quoted or not, and in a file."""
    said = [apply_overrides({}, [f"{key}={text}"], RunConfig) for text in (word, f"'{word}'")]
    if word not in ("a: b", "@here"):  # YAML reads these as something else, and an error says so
        *sections, last = key.split(".")
        lines = [f"{'  ' * depth}{name}:" for depth, name in enumerate(sections)]
        text = "\n".join([*lines, f"{'  ' * len(sections)}{last}: {word}"])
        said.append(parse_yaml(text, RunConfig))
    for content in said:
        for part in key.split("."):
            content = content[part]
        nullable = word == "~" and NoneType in declared_at(RunConfig, key)
        assert content == word or (nullable and content is None) or isinstance(content, dict)


def test_lists_and_maps_of_text_hold_text():
    setup = apply_overrides({}, ["workers.slurm.setup=[module load gcc, 12, no]"], RunConfig)
    assert setup["workers"]["slurm"]["setup"] == ["module load gcc", "12", "no"]
    limits = apply_overrides({}, ["workers.slurm.sbatch={time: 1:30:00, nodes: 010}"], RunConfig)
    assert limits["workers"]["slurm"]["sbatch"] == {"time": "1:30:00", "nodes": 10}


def test_undeclared_values_are_parsed_as_numbers():
    text = "{a: 1e5, b: 010, c: 1_000, d: 2024-01-01, e: 1:30, f: 0x1f, g: .5, h: -.inf, i: no}"
    assert parse_yaml(text) == {
        "a": 1e5, "b": 10, "c": 1000, "d": "2024-01-01", "e": "1:30", "f": 31, "g": 0.5,
        "h": float("-inf"), "i": False,
    }  # fmt: skip


@pytest.mark.parametrize("word", [*WORDS, "1e5", "1.5e-3", ".5", "1_000", "null", ""])
def test_text_survives_a_yaml_round_trip(word):
    content = {"env": "Any-v0", "env_options": {"word": word, word: 1}}
    assert parse_yaml(dump_yaml(content)) == content


def test_run_folder_is_expanded_as_in_a_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    (tmp_path / "task.yaml").write_text("env: CartPole-v1\nrun: {folder: ~}\n")
    assert load_config("~/task.yaml").run.folder == str(tmp_path)
    for text, meant in (("~/x", f"{tmp_path}/x"), ("$SCRATCH/x", "/scratch/me/x"), ("a~b", "a~b")):
        assert load_config("$HOME/task.yaml", [f"run.folder={text}"]).run.folder == meant


def test_existing_file_named_like_a_variable_is_not_expanded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("$x").touch()
    assert expand_path("$x") == "$x"
    with pytest.raises(ValueError, match=r"the variable \$y is not set"):
        expand_path("$y")
