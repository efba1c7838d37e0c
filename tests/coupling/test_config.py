import pytest

from coupling.errors import ConfigError
from coupling.settings.config import dump_config, load_config
from coupling.settings.content import shipped_presets

YAML = """
env: Pendulum-v1
agent: {start: 100, memory: 1000, learning_rate: 1e-4}
"""


@pytest.fixture
def preset(tmp_path):
    file = tmp_path / "preset.yaml"
    file.write_text(YAML)
    return str(file)


def test_numbers_mean_what_a_scientist_means(preset):
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
        ("agent=dqm", r"agent\.algorithm = 'dqm': allowed are 'vracer', 'ddpg'"),
        ("agent.horizn=9", "unknown key 'agent.horizn': did you mean 'agent.horizon'?"),
        (
            "agent.horizon=9",
            "agent: horizon = 9 is a setting of a3c and trust-a3c and ppo, which algorithm = vracer does not read",
        ),
        ("agent.gamma=2", r"agent\.gamma = 2: input should be less than or equal to 1"),
        ("run.steps=many", r"run\.steps = 'many': input should be a valid integer"),
        ("workers.processes=30", r"workers\.processes = 30 is more than workers\.agents = 24"),
        ("run.name=a/b", r"run\.name = 'a/b': a run's name is made of at most 100 letters"),
        (f"run.name={'a' * 101}", "a run's name is made of at most 100 letters"),
        ("env=mine: Reach-v0", "env: must be one word .* such as mine:Reach-v0"),
        ("env=mine:", "env: must be one word .* such as mine:ID"),
        ("steps", "'steps' is not of the form key=value"),
        ("run.steps.x=1", r"run\.steps: input should be a valid integer"),
    ],
)
def test_a_mistake_is_one_sentence(preset, word, sentence):
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
    ],
)
def test_a_missing_preset_is_one_sentence(name, sentence):
    with pytest.raises(ConfigError, match=sentence):
        load_config(name)


@pytest.mark.parametrize("text", ["env: a\nenv: b\n", "[1, 2]", "env: [", "agent: {}\n"])
def test_a_bad_file_is_one_sentence(tmp_path, text):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(str(tmp_path / "bad.yaml"))
    assert "\n" not in str(caught.value)
