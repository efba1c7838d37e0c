"""Custom algorithms: the example in CONTRIBUTING.md is found in its folder and learns."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from pydantic import create_model

from rl_agent.config import AgentConfig, TwoCritics, registry

ROOT = Path(__file__).parents[3]
# ruff takes a module without a file for a third-party one
OURS = ("--config", 'lint.isort.known-first-party = ["rl_agent"]')
FILE = re.compile(r"^```python\n# rl_agent/algorithms/(\w+)/(\w+\.py)\n(.*?)^```$", re.M | re.S)

PROGRAM = """
import sys

import gymnasium
import numpy as np

import rl_agent.algorithms

rl_agent.algorithms.__path__.append(sys.argv[1])

from coupling.settings.config import load_config
from rl_agent import AgentConfig, Learner, train_serial
from rl_agent.config.colours import method_name
from rl_agent.config.defaults import fit


class Identity(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.seen = 0, self.np_random.uniform(-0.8, 0.8, 1).astype(np.float32)
        return self.seen, {}

    def step(self, action):
        reward, self.steps = -float((action[0] - self.seen[0]) ** 2), self.steps + 1
        self.seen = self.np_random.uniform(-0.8, 0.8, 1).astype(np.float32)
        return self.seen, reward, False, self.steps == 10, {}


assert "torch" not in sys.modules
agent = load_config(None, ["env=Pendulum-v1", "agent=offpac", "agent.weight_bound=2"]).agent
assert (agent.weight_bound, method_name("offpac")) == (2.0, "Off-PAC")
assert fit(AgentConfig(algorithm="offpac"), 20_000).sigma == 0.5
try:
    load_config(None, ["env=Pendulum-v1", "agent=sac", "agent.weight_bound=2"])
except Exception as error:
    print(error)
config = AgentConfig(algorithm="offpac", hidden=(32,), gamma=0.0, learning_rate=3e-3, sigma=0.3, batch_size=64,
                     buffer_size=2000, learning_starts=400)
mode = gymnasium.vector.AutoresetMode.SAME_STEP
environments = gymnasium.vector.SyncVectorEnv([Identity] * 4, autoreset_mode=mode)
learner = Learner(config, Identity.observation_space, Identity.action_space, agents=4, seed=0)
seen = np.linspace(-0.7, 0.7, 15, dtype=np.float32)[:, None]
untrained = np.abs(learner.policy().act(seen)[0] - seen).mean()
train_serial(learner, environments, 4000, 0)
print(untrained, np.abs(learner.policy().act(seen)[0] - seen).mean(), learner.gradient_steps)
"""


@pytest.mark.parametrize("name", ["__init__.py", "config.py", "loss.py"])
@pytest.mark.parametrize("check", [("check", *OURS), ("format", "--check")])
def test_example_of_the_page_passes_ruff(name, check):
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    codes = {file: code for _, file, code in FILE.findall(page)}
    codes["__init__.py"] = (
        re.search(r'`__init__.py` that contains only a docstring, `(""".*?""")`', page)[1] + "\n"
    )
    path = f"rl_agent/algorithms/offpac/{name}"
    done = subprocess.run(
        [Path(sys.executable).with_name("ruff"), *check, "--stdin-filename", path, "-"],
        input=codes[name], cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_example_of_the_page_is_found_and_learns(tmp_path):
    files = FILE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert [(folder, name) for folder, name, _ in files] == [
        ("offpac", "config.py"),
        ("offpac", "loss.py"),
    ]
    assert sum(len(code.splitlines()) for _, _, code in files) <= 100
    for folder, name, code in files:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "__init__.py").touch()
        (tmp_path / folder / name).write_text(code)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    refusal, numbers = done.stdout.splitlines()
    assert "weight_bound = 2 is a setting of offpac, which algorithm = sac does not read" in refusal
    untrained, trained, steps = map(float, numbers.split())
    assert untrained > 0.3
    assert trained < 0.1
    assert steps == 3600


def test_external_module_registers_its_algorithm(tmp_path, monkeypatch):
    (tmp_path / "my_algorithm.py").write_text("""
from typing import Literal

from rl_agent.algorithms.td3.loss import TD3, make_actor
from rl_agent.config import TwoCritics, register


class Mine(TD3):
    pass


@register("my_algorithm:Mine")
class MineConfig(TwoCritics):
    algorithm: Literal["mine"] = "mine"
    policy_delay: int = 3
    target_noise: float = 0.0
    target_noise_clip: float = 0.0
    of_mine: float = 1.0
""")
    registry.algorithms()
    monkeypatch.setattr(registry, "_kinds", dict(registry._kinds))
    monkeypatch.setattr(registry, "_implementations", dict(registry._implementations))
    monkeypatch.syspath_prepend(tmp_path)
    import my_algorithm

    config = AgentConfig(algorithm="mine", of_mine=2.0)
    assert isinstance(config, my_algorithm.MineConfig)
    assert registry.implementation(config) == (my_algorithm, my_algorithm.Mine)
    assert "of_mine" not in AgentConfig(algorithm="sac").model_dump()
    with pytest.raises(
        ValueError, match=r"algorithm = mine is registered by my_algorithm\.MineConfig already"
    ):
        registry.register("elsewhere:Other")(type("Other", (my_algorithm.MineConfig,), {}))


def test_settings_follow_the_currently_registered_class(monkeypatch):
    registry.algorithms()
    for default in (1.0, "one"):  # as when a module is imported again after a change
        monkeypatch.setattr(registry, "_kinds", dict(registry._kinds))
        fields = {"algorithm": (Literal["again"], "again"), "of_mine": (type(default), default)}
        kind = create_model("Again", __base__=TwoCritics, **fields)
        registry._kinds["again"] = kind
        assert AgentConfig(algorithm="again").of_mine == default


def test_every_algorithm_folder_is_registered_and_complete():
    folders = {file.parent.name for file in (ROOT / "rl_agent" / "algorithms").glob("*/config.py")}
    kinds = registry.algorithms()
    assert {kind.__module__.split(".")[2] for kind in kinds.values()} == folders
    for name in kinds:
        module, learns = registry.implementation(AgentConfig(algorithm=name))
        assert callable(module.make_actor)
        assert learns.__module__ == module.__name__
    assert TwoCritics not in kinds.values()


def test_settings_are_read_without_torch():
    program = (
        "import sys; from rl_agent.config import AgentConfig; AgentConfig(algorithm='ppo').model_dump(); "
        "assert not [name for name in sys.modules if name.startswith(('torch', 'numba'))]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
