"""Various tasks built on `FlowTask`: no, one or two agent bodies, continuous and discrete actions, sensor history."""

import dataclasses
import inspect
import re
import warnings
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from env_checks import check_api
from gymnasium.vector import AutoresetMode
from pydantic import Field

from cases import actuators, initial_flows, sensors
from cases.actuators import Blow, Gait, Heaters, PitchAcceleration, Push, Spin
from cases.flow_env import FlowEnv, FlowVectorEnv
from cases.flow_parallel import FlowParallelEnv
from cases.flow_task import Flow, FlowTask
from cases.initial_flows import Development
from cases.loads import Loads
from cases.options import FlowOptions
from cases.sensors import Computed, History, MeanLoads, Motion, PastActions, Probes, Skin
from flowsim import (
    Disk,
    Ellipse,
    Grid,
    Jet,
    Sides,
    Simulation,
    Spring,
    Temperature,
    polygon,
)
from flowsim.bodies.swimmers import carangiform

ROOT = Path(__file__).parents[2]


class Options(FlowOptions):
    reynolds: float = Field(100.0, gt=0.0)
    cells_per_diameter: float = Field(8.0, ge=4.0)
    episode_actions: int = Field(6, ge=1)
    action_time: float = Field(0.25, gt=0.0)

    def box(self):
        return (4.0, 3.0)


class Stirrer(FlowTask[Options]):
    """No agent body: one agent sets the spins of two held disks by one of three choices."""

    options_class = Options
    folder = Path(__file__).parent
    choices: ClassVar = [(-1.0, 0.0), (0.0, 0.0), (1.0, -0.5)]

    def flow(self):
        return Flow(
            bodies=[Disk(diameter=0.8, center=(1.2, 1.5)), Disk(diameter=0.6, center=(2.6, 1.5))],
            sides=Sides.all("slip"),
            stream=(0.0, 0.0),
        )

    def actuators(self):
        return [Spin([0], rate=3.0, ramp=0.1), Spin([1], rate=2.0)]

    def sensors(self):
        probes = Probes([(1.9, 1.0), (1.9, 2.0)], "pressure")
        return [History(probes, 3), MeanLoads([0, 1], ["torque"]), PastActions(2)]

    def reward(self, commands):
        return -self.loads.averages()["power"].sum(axis=1)


class Pair(FlowTask[Options]):
    """Two free ellipses are agents that have to stay in place; episodes start from a developed flow."""

    options_class = Options
    folder = Path(__file__).parent
    agent_bodies = (1, 2)
    alive_box = (0.4, 3.6, 0.4, 2.6)
    failure_reward = -3.0

    def flow(self):
        free = [
            Ellipse(major=0.6, aspect=0.5, center=(2.2, y), motion="free", density=1.0)
            for y in (1.0, 2.0)
        ]
        return Flow(bodies=[Disk(diameter=0.5, center=(1.0, 1.5)), *free])

    @property
    def development(self):
        return Development(time=1.0, snapshots=3, spacing=0.3, bodies=1)

    def actuators(self):
        return [Push(self.agent_bodies, 0.2, 0.02)]

    def sensors(self):
        skin = [(0.3, 0.0), (-0.3, 0.0)]
        outside = 1.2 * np.array(skin)
        return [
            Computed(self._place, [4.0, 4.0]),
            Motion(self.agent_bodies),
            Skin(self.agent_bodies, skin, outside),
            Probes([(3.0, 1.5)]),
        ]

    def _place(self):
        return self.simulation.body_state.position[:, [1, 2]]

    def draw(self, generator):
        return generator.uniform(-0.1, 0.1, (2, 2))

    def place(self, index, drawn):
        state = self.simulation.body_state
        state.position[index, [1, 2]] = np.add([(2.2, 1.0), (2.2, 2.0)], drawn)

    def reward(self, commands):
        return -(commands**2).sum(axis=-1) - np.arange(2)

    def info(self):
        return {"height": self._place()[..., 1]}


class StirrerEnv(FlowEnv):
    task_class = Stirrer


class StirrerVectorEnv(FlowVectorEnv):
    task_class = Stirrer


class PairEnv(FlowEnv):
    task_class = Pair


class PairVectorEnv(FlowVectorEnv):
    task_class = Pair


class PairParallelEnv(FlowParallelEnv):
    task_class = Pair
    vector_class = PairVectorEnv


BOTH = [(StirrerEnv, StirrerVectorEnv), (PairEnv, PairVectorEnv)]


@pytest.mark.parametrize("single", [StirrerEnv, PairEnv])
def test_follows_the_gymnasium_api(single):
    check_api(single(render_mode="rgb_array"))


@pytest.mark.parametrize(("single", "batched"), BOTH)
def test_batch_equals_single_environments_bit_for_bit(single, batched):
    batch = batched(3, autoreset_mode=AutoresetMode.SAME_STEP)
    singles = [single() for _ in range(3)]
    batch.single_action_space.seed(1)
    seen, _ = batch.reset(seed=7)
    for n, env in enumerate(singles):
        np.testing.assert_array_equal(seen[n], env.reset(seed=7 + n)[0])
    for _ in range(8):
        actions = [batch.single_action_space.sample() for _ in singles]
        seen, rewards, terminated, truncated, infos = batch.step(np.array(actions))
        for n, env in enumerate(singles):
            observation, reward, *ends, info = env.step(actions[n])
            assert (rewards[n], terminated[n], truncated[n]) == (reward, *ends)
            if any(ends):
                np.testing.assert_array_equal(infos["final_obs"][n], observation)
                observation, _ = env.reset()
            else:
                for key, value in info.items():
                    np.testing.assert_array_equal(infos[key][n], value)
            np.testing.assert_array_equal(seen[n], observation)


@pytest.mark.parametrize(("single", "batched"), BOTH)
def test_restored_states_continue_bit_for_bit(single, batched):
    """Including the history of the sensors."""
    env, other = single(), single()
    env.action_space.seed(2)
    env.reset(seed=1)
    actions = [env.action_space.sample() for _ in range(4)]
    env.step(actions[0])
    env.step(actions[1])
    other.reset(seed=9)
    other.set_state(env.get_state())
    for action in actions[2:]:
        one, two = env.step(action), other.step(action)
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1:4] == two[1:4]


def test_discrete_actions_map_to_commands_and_history_is_newest_first():
    env = StirrerEnv()
    assert env.action_space == gymnasium.spaces.Discrete(3)
    first, _ = env.reset(seed=0)
    np.testing.assert_array_equal(first[0:2], first[2:4])
    np.testing.assert_array_equal(first[8:], 0.0)
    second, reward, *_, info = env.step(2)
    np.testing.assert_array_equal(info["applied_action"], [1.0, -0.5])
    state = env.task.simulation.body_state
    np.testing.assert_allclose(state.angular_velocity[0], [3.0, -1.0], atol=1e-12)
    np.testing.assert_allclose(
        second[:2], env.task.simulation.sample_pressure([(1.9, 1.0), (1.9, 2.0)])[0], rtol=1e-6
    )
    np.testing.assert_array_equal(second[2:6], np.tile(first[:2], 2))
    np.testing.assert_allclose(second[6:8], info["torque"], rtol=1e-6)
    assert reward == -info["power"].sum() < 0.0, "to turn a disk in still fluid takes power"
    third, *_ = env.step(0)
    np.testing.assert_array_equal(third[2:4], second[:2])
    np.testing.assert_array_equal(third[8:], [-1.0, 0.0, 1.0, -0.5])
    for wrong in (3, -1, 0.5):
        with pytest.raises(ValueError, match="whole numbers from 0 to 2"):
            env.step(wrong)


def test_two_agents_act_and_observe_separately():
    env, joint = PairParallelEnv(), PairEnv()
    assert env.possible_agents == ["agent_0", "agent_1"]
    seen, _ = env.reset(seed=3)
    both, _ = joint.reset(seed=3)
    np.testing.assert_array_equal(np.concatenate([*seen.values()]), both)
    for name in env.agents:
        assert env.observation_space(name).contains(seen[name])
    actions = {"agent_0": [0.0, 1.0, 0.0], "agent_1": [0.0, 0.0, 0.5]}
    seen, rewards, ended, _, infos = env.step(actions)
    both, reward, *_, info = joint.step(np.concatenate([*actions.values()]))
    assert rewards == {"agent_0": -1.0, "agent_1": -1.25}
    assert reward == np.mean([*rewards.values()])
    np.testing.assert_array_equal(info["rewards"], [-1.0, -1.25])
    assert not any(ended.values())
    np.testing.assert_array_equal(np.concatenate([*seen.values()]), both)
    force = env.simulation.body_state.applied_force[0]
    np.testing.assert_array_equal(force, [(0.0, 0.0), (0.0, 0.2), (0.0, 0.0)])
    state = env.simulation.body_state
    for number, name in enumerate(env.possible_agents):
        np.testing.assert_allclose(seen[name][:2], state.position[0, number + 1], rtol=1e-6)
        np.testing.assert_allclose(seen[name][3:5], state.velocity[0, number + 1], rtol=1e-6)
        assert infos[name]["height"] == state.position[0, number + 1, 1]
        assert infos[name]["drag"] == info["drag"][number + 1]
    # the probe is the same for both
    np.testing.assert_array_equal(seen["agent_0"][-2:], seen["agent_1"][-2:])


def test_one_agent_leaving_its_box_ends_the_episode_for_all():
    env = PairParallelEnv()
    env.reset(seed=0)
    env.simulation.body_state.position[0, 2] = 2.2, 2.61
    _, rewards, ended, late, _ = env.step(dict.fromkeys(env.agents, np.zeros(3)))
    assert all(ended.values())
    assert not any(late.values())
    assert set(rewards.values()) == {-3.0}
    assert env.agents == []


def test_two_agents_pass_the_pettingzoo_api_tests():
    api = pytest.importorskip("pettingzoo.test", reason="PettingZoo is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        api.parallel_api_test(PairParallelEnv(), num_cycles=8)
        api.parallel_seed_test(PairParallelEnv, num_cycles=4)


def test_bank_holds_the_fixed_bodies_and_driven_bodies_are_refused(monkeypatch):
    """The stored flow contains only the disk; the agents are placed in it at rest."""
    env = PairVectorEnv(6)
    env.reset(seed=0)
    state = env.task.simulation.get_state(0)
    assert state["time"] == 0.0
    assert np.abs(state["body_velocity"]).max() == 0.0
    flows = {env.task.simulation.u[b].tobytes() for b in range(6)}
    assert len(flows) > 1
    disk = dataclasses.replace(
        env.task.simulation.bodies[0], motion=lambda t: (1.0, 1.5, 0.0, 0.0, 0.0, 0.0)
    )
    monkeypatch.setattr(Pair, "flow", lambda self: Flow(bodies=[disk]))
    monkeypatch.setattr(Pair, "agent_bodies", ())
    monkeypatch.setattr(Pair, "sensors", lambda self: [Probes([(3.0, 1.5)])])
    with pytest.raises(ValueError, match="driven by a function of time"):
        PairEnv()


def test_start_without_placed_bodies_continues_the_stored_flow(monkeypatch):
    """No settling: the first steps equal those of the stored flow."""
    monkeypatch.setattr(Pair, "draw", lambda self, generator: None)
    monkeypatch.setattr(Pair, "place", lambda self, index, drawn: None)
    monkeypatch.setattr(Pair, "agent_bodies", ())
    monkeypatch.setattr(Pair, "actuators", lambda self: [Spin([0], 1.0)])
    monkeypatch.setattr(Pair, "sensors", lambda self: [Probes([(3.0, 1.5)])])
    monkeypatch.setattr(Pair, "reward", lambda self, commands: -commands[:, 0])
    monkeypatch.setattr(Pair, "info", lambda self: {})
    disk = Disk(diameter=0.5, center=(1.0, 1.5))
    monkeypatch.setattr(Pair, "flow", lambda self: Flow(bodies=[disk]))
    env = PairEnv()
    env.reset(seed=0)
    alone = env.task.build(1, 1)
    stored = initial_flows.load_or_build(alone, env.task.development, env.task.disturb)
    number = int(np.random.default_rng(0).integers(3))
    alone.set_state(0, {name: values[number] for name, values in stored.items()})
    alone.advance(0.25)
    env.step(np.zeros(1))
    ours = env.task.simulation.velocity_at_centres()
    np.testing.assert_array_equal(ours, alone.velocity_at_centres())


def _task(flow, development=None, actuators=(), sensors=None, **members):
    """Return the environment of a task without reward, in the given flow."""

    class Bare(FlowTask[Options]):
        options_class = Options
        folder = Path(__file__).parent

        def flow(self):
            return flow

        @property
        def development(self):
            return development

        def actuators(self):
            return actuators

        def sensors(self):
            return sensors or [Probes([(3.0, 1.5)])]

        def reward(self, commands):
            return np.zeros(self.batch)

    return type("BareEnv", (FlowEnv,), {"task_class": type("Task", (Bare,), members)})()


FIRST = Disk(diameter=0.5, center=(1.0, 1.5))
SPRUNG = Disk(
    diameter=0.6, center=(2.5, 1.4), angle=0.3, motion="free", springs={"y": Spring(stiffness=1.5)}
)
SHORT = Development(time=0.5, snapshots=2, spacing=0.1, bodies=1)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (FIRST, Disk(diameter=0.6, center=(2.5, 1.4), angle=0.3)),
        (FIRST, SPRUNG),
        (dataclasses.replace(SPRUNG, center=(1.0, 1.5)), SPRUNG),
        (FIRST, carangiform(center=(2.5, 1.4), angle=0.3, phase=0.2, density=1.0)),
    ],
    ids=["fixed", "sprung", "both sprung", "swimmer"],
)
def test_body_that_appears_in_a_developed_flow_begins_at_its_own_place(first, other):
    """The flow equals that of a simulation with both bodies, into which the stored flow is written by hand."""
    env = _task(Flow(bodies=[first, other]), SHORT)
    env.reset(seed=0)
    begun, task = env.task.simulation, env.task
    np.testing.assert_array_equal(begun.body_state.position[0, 1], (2.5, 1.4))
    assert begun.body_state.angle[0, 1] == 0.3
    stored = initial_flows.load_or_build(task.build(1, 1), SHORT, task.disturb)
    number = int(np.random.default_rng(0).integers(2))
    by_hand, own = task.build(1), stored.keys() - {"gait", "form", "midlines"}
    for name, values in vars(by_hand.body_state).items():
        values[0, 0] = stored[f"body_{name}"][number, 0]
        own.remove(f"body_{name}")
    state = by_hand.get_state()
    state |= {name: stored[name][number] for name in own - {"springs"}}
    by_hand.set_state(0, state)
    by_hand.settle()
    for simulation in (begun, by_hand):
        simulation.advance(0.4)
    np.testing.assert_array_equal(begun.velocity_at_centres(), by_hand.velocity_at_centres())
    np.testing.assert_array_equal(begun.body_state.position, by_hand.body_state.position)
    assert begun.body_state.force[0, 1, 0] != 0.0


def test_jets_and_temperature_of_a_body_that_appears():
    """They are left out while the flow develops without it."""
    flow = Flow(bodies=[FIRST, Disk(center=(2.5, 1.4))], jets=[Jet(body=1, angle=0.0, width=0.5)])
    env = _task(flow, SHORT, [Blow((0,), rate=0.1)])
    env.reset(seed=0)
    env.step(np.ones(1))
    assert env.task.simulation.jet_flow_rates[0, 0] == pytest.approx(0.1)
    warm = Temperature(0.01, bodies={0: 0.5, 1: 1.0})
    env = _task(Flow(bodies=[FIRST, Disk(center=(2.5, 1.4))], temperature=warm), SHORT)
    env.reset(seed=0)
    env.step(np.zeros(0))
    inside = env.task.simulation.sample_temperature([(1.0, 1.5), (2.5, 1.4)])
    np.testing.assert_allclose(inside[0], [0.5, 1.0], atol=1e-3)


def test_flow_without_a_body_develops_and_is_followed():
    env = _task(Flow(), dataclasses.replace(SHORT, bodies=None))
    env.reset(seed=0)
    assert np.abs(env.task.simulation.v[0]).max() > 0.01
    np.testing.assert_array_equal(env.task.focus(0), (2.0, 1.5))


def test_flow_of_another_disturbance_is_not_read_from_the_cache(tmp_path, monkeypatch):
    """Tasks whose own `disturb` differs, as after an edit of the file, or depends on something else."""
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))

    def pushed(strength):
        def disturb(self, simulation):
            x, y = simulation.grid.v_faces()
            bump = np.exp(-((x - 2.0) ** 2) - (y - 1.5) ** 2)
            simulation.add_velocity(0, 0.0, strength * bump)

        return disturb

    flow, several = Flow(bodies=[FIRST]), {}
    for strength in (0.1, 0.2, 0.2):
        env = _task(flow, SHORT, disturb=pushed(strength))
        several.setdefault(strength, []).append(env.task._bank["v"].tobytes())
    assert several[0.1] != several[0.2][:1]
    assert several[0.2][0] == several[0.2][1]
    assert len(list(tmp_path.glob("flows/*.npz"))) == 2


def test_bank_is_refused_for_an_inflow_that_varies_in_time_and_bodies_that_do_not_exist():
    channel = Sides("inflow", "outflow", "slip", "slip")
    flow = Flow(
        bodies=[FIRST],
        sides=channel,
        inflows={"left": lambda s, t: 1.0 + 0.1 * np.sin(t) + 0.0 * s},
    )
    with pytest.raises(
        ValueError, match="an inflow is a function of time, so its flow has no bank"
    ):
        _task(flow, SHORT)
    _task(flow).reset(seed=0)
    for count in (-1, 2):
        development = dataclasses.replace(SHORT, bodies=count)
        with pytest.raises(ValueError, match=f"bodies = {count}, but the flow has 1 bodies"):
            _task(Flow(bodies=[FIRST]), development)


@pytest.mark.parametrize(
    ("motion", "actuator", "message"),
    [
        ("free", Spin([0], rate=1.0), 'Spin acts on body 0, so its motion must be "fixed"'),
        ("fixed", Push([0], 1.0, 1.0), 'Push acts on body 0, so its motion must be "free"'),
        (
            "free",
            PitchAcceleration([0], 1.0, 0.25, 1.0, (-1.0, 1.0)),
            'PitchAcceleration acts on body 0, so its motion must be "fixed"',
        ),
        ("fixed", Spin([1], rate=1.0), "Spin acts on body 1, but there are 1 bodies"),
        ("fixed", Blow((0,), rate=0.1), "Blow acts on jet 0, but there are 0 jets"),
    ],
)
def test_actuator_without_effect_is_refused(motion, actuator, message):
    with pytest.raises(ValueError, match=message):
        _task(Flow(bodies=[dataclasses.replace(FIRST, motion=motion)]), actuators=[actuator])


def test_page_shows_the_template_and_every_part():
    page = (ROOT / "docs" / "own_task.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    assert code == (ROOT / "coupling" / "templates" / "flow" / "my_task.py").read_text()
    assert len(code.splitlines()) < 80
    for module in (actuators, sensors):
        for name, part in inspect.getmembers(module, inspect.isclass):
            own = part.__module__ == module.__name__ and not inspect.isabstract(part)
            if own and not name.startswith("_") and name != "Measured":
                assert f"[`{name}`](../cases/{module.__name__.split('.')[1]}.py#{name})" in page


def test_invalid_parts_are_refused():
    with pytest.raises(ValueError, match="a probe measures velocity or pressure"):
        Probes([(1.0, 1.0)], "heat")
    with pytest.raises(ValueError, match=r"must have \(n, 2\)"):
        Probes([1.0, 1.0])
    for length in (0, 1.5, "a", True):
        with pytest.raises(ValueError, match=f"length = {length!r}: it must be a whole number"):
            PastActions(length)
    with pytest.raises(ValueError, match=r"skin and outside have the shapes \(1, 2\) and \(2, 2\)"):
        Skin([0], [(0.3, 0.0)], [(0.4, 0.0), (0.0, 0.4)])
    for names in (["darg"], "drag"):
        with pytest.raises(ValueError, match="each one of drag, lift, torque, power"):
            MeanLoads([0], names)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spin([0], rate=np.nan), "Spin: rate = nan, but must be a finite number"),
        (lambda: Spin([0], rate="1"), "Spin: rate = '1', but must be a finite number"),
        (lambda: Spin([0], rate=1.0, ramp=-1), "Spin: ramp = -1, but must be a finite time"),
        (lambda: Spin(0, rate=1.0), "Spin: bodies = 0, but must be a list of numbers of bodies"),
        (lambda: Spin([0.5], rate=1.0), r"Spin: bodies = \[0.5\], but must be a list"),
        (lambda: Push([0], np.inf, 1.0), "Push: force = inf"),
        (lambda: Push([0], 1.0, None), "Push: torque = None"),
        (lambda: Blow((0,), rate=np.nan), "Blow: rate = nan"),
        (lambda: Blow((0,), rate=1.0, ramp=np.inf), "Blow: ramp = inf"),
        (lambda: Blow((0, 1, 2), rate=1.0), "Blow: jets = .*, but must be one jet or two"),
        (lambda: Blow("0", rate=1.0), "Blow: jets = '0', but must be a list of numbers of jets"),
        (lambda: PitchAcceleration([0], 0.0, 1.0, 1.0, (-1, 1)), "acceleration = 0.0, but must be"),
        (lambda: PitchAcceleration([0], 1.0, -1.0, 1.0, (-1, 1)), "duration = -1.0"),
        (lambda: PitchAcceleration([0], 1.0, 1.0, np.nan, (-1, 1)), "largest_rate = nan"),
        (lambda: PitchAcceleration([0], 1.0, 1.0, 1.0, (1, -1)), "the lower one first"),
        (lambda: Heaters("ab", 1.0, 0.5, 0.1), "names = 'ab', but must be a list of names"),
        (lambda: Heaters(["a"], np.nan, 0.5, 0.1), "mean = nan"),
        (lambda: Heaters(["a"], 1.0, 0.0, 0.1), "amplitude = 0.0, but must be a positive number"),
        (lambda: Heaters(["a"], 1.0, 0.5, 0), "smoothing = 0, but must be a positive number"),
        (lambda: Gait([0], np.nan, 0.2, 1.0), "turn = nan"),
        (lambda: Gait([0], 0.5, 1.0, 1.0), "period = 1.0, but must be between -1 and 1"),
        (lambda: Gait([0], 0.5, 0.2, 0.0), "over = 0.0, but must be a positive number"),
        (lambda: Motion(0), "Motion: bodies = 0, but must be a list"),
        (lambda: MeanLoads("0"), "MeanLoads: bodies = '0', but must be a list"),
        (lambda: MeanLoads([0], None), "names = None: a sequence of loads"),
        (lambda: MeanLoads([0], ()), r"names = \(\): a sequence of loads"),
        (lambda: Probes("ab"), "Probes: points = 'ab', but must be numbers"),
        (lambda: Skin([0], [(np.nan, 0.0)], [(0.4, 0.0)]), "skin and outside must be finite"),
        (lambda: Computed(None, [1.0]), "Computed: function = None, but must be a function"),
        (lambda: Computed(np.zeros, [1.0, np.nan]), "limits = .*, but must be a list of positive"),
        (lambda: Computed(np.zeros, 1.0), "limits = 1.0, but must be a list of positive numbers"),
        (lambda: Computed(np.zeros, "ab"), "limits = 'ab', but must be numbers"),
        (lambda: History("probes", 2), "History: sensor = 'probes', but must be a sensor"),
    ],
)
def test_values_out_of_range_of_actuators_and_sensors_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bodies_may_be_an_array():
    assert MeanLoads(np.arange(2)).limits.shape == (4,)


def test_a_push_without_force_has_no_arrow():
    free = dataclasses.replace(FIRST, motion="free")
    env = _task(Flow(bodies=[free]), actuators=[Push([0], 0.0, 1.0)])
    env.reset(seed=0)
    env.step(np.ones(3))
    assert env.task.scene(0).force is None


def test_history_of_past_actions_is_that_of_more_actions():
    sensors = [History(PastActions(), 3), PastActions(3)]
    env = _task(Flow(bodies=[FIRST]), actuators=[Spin([0], rate=1.0)], sensors=sensors)
    env.reset(seed=0)
    for action in (0.5, -0.25):
        seen = env.step([action])[0]
    assert seen.tolist() == [-0.25, 0.5, 0.0] * 2


def test_reward_of_failure_is_a_number():
    with pytest.raises(ValueError, match="failure_reward = nan, but must be a finite number or"):
        _task(Flow(), failure_reward=np.nan)


@pytest.mark.parametrize("kind", [FlowEnv, FlowVectorEnv, FlowParallelEnv])
def test_class_without_what_it_must_define_is_refused(kind):
    missing = {"flow": None, "actuators": None, "sensors": None, "reward": None}
    bare = type("Bare", (FlowTask,), missing)
    optional = type("Optional", (bare,), {"options_class": Options})
    with pytest.raises(TypeError, match="the class Env must define task_class: its FlowTask"):
        type("Env", (kind,), {})()
    with pytest.raises(TypeError, match="the class Bare must define options_class: a subclass of"):
        type("Env", (kind,), {"task_class": bare})()
    with pytest.raises(TypeError, match="the class Optional must define folder: that of its pres"):
        type("Env", (kind,), {"task_class": optional})()


@pytest.mark.parametrize(
    ("sensor", "message"),
    [
        (Probes([(1.0, 1.0), (4.1, 1.0)]), r"Probes: \(4.1, 1\) is not in the box of 4 x 3"),
        (Probes([(np.nan, 1.0)], "pressure"), r"Probes: \(nan, 1\) is not in the box"),
        (History(Probes([(1.0, -0.1)]), 2), r"Probes: \(1, -0.1\) is not in the box"),
        (MeanLoads([1]), "MeanLoads is on body 1, but there are 1 bodies"),
        (MeanLoads([-1]), "MeanLoads is on body -1, but there are 1 bodies"),
        (Motion([1]), "Motion is on body 1, but there are 1 bodies"),
        (Motion([0, 0]), "Motion is on 2 bodies, but takes one for each of 1 agents"),
        (
            Skin([0, 0], [(0.3, 0.0)], [(0.4, 0.0)]),
            "Skin is on 2 bodies, but takes one for each of 1 agents",
        ),
    ],
)
def test_sensor_of_what_the_flow_does_not_have_is_refused(sensor, message):
    with pytest.raises(ValueError, match=message):
        _task(Flow(bodies=[FIRST]), sensors=[sensor])


def test_power_is_the_work_of_the_force_on_the_centre_of_mass():
    """For a body that turns about a reference point far from it."""
    body = polygon(
        [(0.2, -0.2), (0.9, -0.2), (0.9, 0.2), (0.2, 0.2)], center=(2.0, 2.0), motion="free"
    )
    sim = Simulation(
        Grid(32, 32, 1 / 8), Sides.all("slip"), [body], viscosity=0.02, stream=(0.0, 0.0), dtype="float64"
    )  # fmt: skip
    loads, state, work = Loads(sim), sim.body_state, 0.0
    loads.clear()
    force, torque = np.array([0.1, 0.3]), 0.05
    state.applied_force[:, 0], state.applied_torque[:, 0] = force, torque

    def motion():
        """Return the velocity of the centre of mass, and the angular velocity."""
        angle, spin = state.angle[0, 0], state.angular_velocity[0, 0]
        arm = 0.55 * np.array([np.cos(angle), np.sin(angle)])
        return state.velocity[0, 0] + spin * np.array([-arm[1], arm[0]]), spin

    for _ in range(60):
        (velocity, spin) = motion()
        sim.step()
        (later, faster) = motion()
        work += 0.5 * sim.dt[0] * (force @ (velocity + later) + torque * (spin + faster))
    assert loads.averages()["power"][0, 0] * sim.time[0] == pytest.approx(work, rel=1e-3)


def test_state_of_a_batch_includes_which_environments_rest():
    batch, other = StirrerVectorEnv(3), StirrerVectorEnv(3)
    batch.reset(seed=1)
    batch.resting[1] = True
    other.set_state(batch.get_state())
    assert other.resting.tolist() == [False, True, False]
    for action in (0, 2):
        for one, two in zip(
            batch.step([action] * 3)[:4], other.step([action] * 3)[:4], strict=True
        ):
            np.testing.assert_array_equal(one, two)


def _mistaken(**methods):
    task = type("Mistaken", (Stirrer,), {"choices": None} | methods)
    return type("MistakenEnv", (FlowVectorEnv,), {"task_class": task})(num_envs=2)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"flow": lambda task: None}, r"flow\(\) returned None, but must return a Flow"),
        ({"actuators": lambda task: None}, r"actuators\(\) returned None, but must return a list"),
        ({"actuators": lambda task: ["spin"]}, r"actuators\(\) returned \['spin'\], but must"),
        ({"sensors": lambda task: PastActions()}, r"sensors\(\) returned .*PastActions"),
        ({"sensors": lambda task: []}, r"sensors\(\) returned none"),
    ],
)
def test_methods_that_return_something_else_are_refused(methods, message):
    with pytest.raises(ValueError, match=message):
        _mistaken(**methods)


@pytest.mark.parametrize(
    "reward", [None, 0.5, "good", np.zeros(3), np.zeros((2, 2)), np.zeros(2, complex)]
)
def test_rewards_of_another_shape_or_type_are_refused(reward):
    env = _mistaken(reward=lambda task, commands: reward)
    env.reset(seed=0)
    with pytest.raises(
        ValueError, match=r"reward returned .*must return numbers of the shape \(2,\)"
    ):
        env.step(np.zeros((2, 2)))


def test_rewards_may_be_a_list():
    env = _mistaken(reward=lambda task, commands: [1.0, 2])
    env.reset(seed=0)
    assert env.step(np.zeros((2, 2)))[1].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("values", [None, 0.5, np.zeros(2), np.zeros((2, 3)), "seen"])
def test_computed_observations_of_another_shape_are_refused(values):
    env = _mistaken(sensors=lambda task: [Computed(lambda: values, [1.0, 1.0])])
    with pytest.raises(ValueError, match=r"must return numbers of the shape \(2, 2\)"):
        env.reset(seed=0)
