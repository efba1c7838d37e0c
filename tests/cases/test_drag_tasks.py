"""Drag reduction tasks: Gymnasium API, initial states, power, baselines and evaluation reports."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from env_checks import check_api, check_batch

from cases import schaefer_turek
from cases.baselines import NAMED, FeedbackController, HarmonicController, baselines
from cases.cylinder_jets import env as jets
from cases.fluidic_pinball import env as pinball
from cases.initial_flows import SEEDS, Development, seed_of
from cases.options import preset_names
from cases.rotating_cylinder import env as cylinder
from cases.square_jets import env as square
from coupling.evaluation.evaluate import baselines_of, evaluate_with_baselines
from coupling.evaluation.pool import EvaluationPool
from coupling.run import tables
from rl_agent.rollout.seeds import Purpose, episode_seed

IDS = ("flowsim/RotatingCylinder-v0", "flowsim/FluidicPinball-v0")
JETS = ("flowsim/CylinderJets-v0", "flowsim/SquareJets-v0")
TINY = {"cells_per_diameter": 4}
SMALLEST = {JETS[0]: {"cells_per_diameter": 20}, JETS[1]: {"cells_per_diameter": 8}}
"""What the height of the channel, and the thickness of a body under a jet, need."""


@pytest.fixture(scope="module", autouse=True)
def _short_development():
    """Two states each for training, validation and test."""
    with pytest.MonkeyPatch.context() as patch:
        for task in (pinball, cylinder, schaefer_turek, square):
            short = replace(task.DEVELOPMENT, time=2.0, snapshots=6, spacing=0.3)
            patch.setattr(task, "DEVELOPMENT", short)
        yield


@pytest.mark.parametrize("env_id", IDS + JETS)
def test_follows_the_gymnasium_api(env_id):
    check_api(gymnasium.make(env_id, **SMALLEST.get(env_id, TINY)).unwrapped)


@pytest.mark.parametrize("env_id", IDS + JETS)
def test_batch_equals_single_environments_bit_for_bit(env_id):
    options = SMALLEST.get(env_id, TINY) | {"episode_actions": 3}
    check_batch(env_id, options, actions=5)


@pytest.mark.parametrize("env_id", IDS + JETS)
def test_presets_make_valid_environments(env_id):
    folder = gymnasium.make(env_id, **SMALLEST.get(env_id, TINY)).unwrapped.task.folder
    for preset in preset_names(folder):
        # the height of the channel fits no coarser grid
        coarse = {} if preset == "channel" else SMALLEST.get(env_id, TINY)
        env = gymnasium.make(env_id, preset=preset, **coarse)
        assert env.reset(seed=0)[0] in env.observation_space


def test_training_validation_and_test_episodes_have_different_initial_states():
    """Ten states each, chosen by rl_agent's seeds for training, selection and evaluation."""
    names = {
        "training": Purpose.TRAINING,
        "validation": Purpose.SELECTION,
        "test": Purpose.EVALUATION,
    }
    assert {name: purpose.value for name, purpose in names.items()} == SEEDS
    for task in (pinball, cylinder):
        development = replace(task.DEVELOPMENT, snapshots=30)
        found = [development.states_of(episode_seed(p, 7, 3)) for p in names.values()]
        assert [len(states) for states in found] == [10, 10, 10]
        assert len(set().union(*found)) == 30
    assert Development(time=1.0).states_of(2**31) == range(24)
    for given, words in (
        ({"snapshots": 2, "split": True}, "snapshots = 2: a bank has at least 3"),
        ({"snapshots": 0}, "snapshots = 0: a bank has at least 1"),
        ({"spacing": 0.0}, r"spacing = 0\.0"),
        ({"time": np.nan}, "time = nan"),
    ):
        with pytest.raises(ValueError, match=words):
            Development(**({"time": 1.0} | given))


def test_held_out_episodes_take_the_states_in_turn():
    """Only two states are held out for tests here, so every second episode repeats."""
    for purpose in (Purpose.SELECTION, Purpose.EVALUATION):
        with EvaluationPool(IDS[0], TINY, processes=1, purpose=purpose) as pool:
            found = pool.play(baselines(IDS[0], 1)["zero"], 4, 0)
        assert found.returns[0] == found.returns[2] != found.returns[1] == found.returns[3]
    # an environment that continues with its generator samples a new state
    developed = Development(time=1.0, snapshots=30, split=True)
    generator = gymnasium.utils.seeding.np_random(2**31 + 7)[0]
    first = 20 + (2**31 + 7) % 10
    assert developed.draw(generator) == first
    assert {developed.draw(generator) for _ in range(300)} == set(range(20, 30))


def test_purpose_persists_after_the_episode_and_a_restart():
    """Environments use the states of their purpose after an autoreset and after a restore."""
    env = gymnasium.make(IDS[0], episode_actions=1, **TINY).unwrapped
    drawn = []
    restore = env.task.simulation.restore_states
    env.task.simulation.restore_states = lambda which, bank, numbers: (
        drawn.extend(numbers),
        restore(which, bank, numbers),
    )
    env.reset(seed=SEEDS["test"].start + 3)
    state = env.get_state()
    other = gymnasium.make(IDS[0], episode_actions=1, **TINY).unwrapped
    other.set_state(state)
    assert seed_of(other.np_random) == SEEDS["test"].start + 3
    for _ in range(12):
        env.reset()
    assert set(drawn) == {4, 5}
    env.reset(seed=1)
    for _ in range(12):
        env.reset()
    assert set(drawn[13:]) == {0, 1}


def test_power_is_integrated_over_every_step():
    """Reversing the spin within an action needs power although the mean angular velocity is zero."""
    env = gymnasium.make(IDS[0], cells_per_diameter=8, wall_speed=1.0).unwrapped
    simulation, work, times = env.task.simulation, [], []
    before = [0.0]

    def look(sim):
        spin, torque = sim.body_state.angular_velocity[0, 0], sim.body_state.torque[0, 0]
        work.append(-torque * 0.5 * (spin + before[0]) * sim.dt[0])
        times.append(sim.dt[0])
        before[0] = spin

    env.reset(seed=0)
    env.step(np.ones(1, np.float32))
    before[0] = simulation.body_state.angular_velocity[0, 0]
    env.episodes.watch = look
    *_, info = env.step(-np.ones(1, np.float32))
    assert info["power"][0] - info["drag"][0] == pytest.approx(sum(work) / sum(times), rel=1e-9)
    assert info["measures"]["actuation power"] >= 0.0
    *_, info = env.step(-np.ones(1, np.float32))
    assert info["measures"]["actuation power"] > 0.0
    assert info["measures"]["net power"] == pytest.approx(
        info["measures"]["C_D"] + info["measures"]["actuation power"]
    )


def test_reward_is_the_power_saved():
    env = gymnasium.make(IDS[1], **TINY, drag_reference=5.0, power_weight=2.0, lift_weight=0.5)
    env.reset(seed=0)
    _, reward, *_, info = env.step(np.array([0.2, -0.6, 1.4], np.float32))
    found = info["measures"]
    expected = 5.0 - found["C_D"] - 2.0 * found["actuation power"] - 0.5 * abs(found["C_L"])
    assert reward == pytest.approx(expected)
    assert found["C_D"] == pytest.approx(2.0 * info["drag"].sum())
    rear = 2.0 * np.array([-0.6, 1.0])
    np.testing.assert_allclose(env.unwrapped.task.simulation.body_state.angular_velocity[0, 1:], rear)  # fmt: skip


def test_branches_are_mirror_images():
    tops = []
    for branch in ("up", "down"):
        env = gymnasium.make(IDS[1], **TINY, branch=branch)
        env.reset(seed=0)
        *_, info = env.step(np.zeros(3, np.float32))
        tops.append((info["lift"][1], -info["lift"][2]))
    np.testing.assert_allclose(tops[0], tops[1][::-1], rtol=0.02)
    assert tops[0][0] != tops[0][1]


def test_jets_blow_and_suck_equally_and_power_follows_the_ramp():
    env = gymnasium.make(JETS[1], **SMALLEST[JETS[1]]).unwrapped
    simulation, rates = env.task.simulation, []
    env.reset(seed=0)
    env.episodes.watch = lambda sim: rates.append((sim.jet_flow_rates[0].copy(), sim.dt[0]))
    before = 0.0
    for command in (0.5, -1.0, -1.0):
        rates.clear()
        *_, info = env.step(np.array([command], np.float32))
        np.testing.assert_allclose(simulation.jet_flow_rates[0], [0.1 * command, -0.1 * command])
        flow, dt = np.array([rate for rate, _ in rates]), np.array([dt for _, dt in rates])
        time = np.append(0.0, np.cumsum(dt))
        moments = np.linspace(0.0, time[-1], 4001)
        blown = np.interp(moments, time, np.append(before, flow[:, 0]))
        cubes = 2.0 * np.mean(np.abs(blown) ** 3) / 0.1**2
        assert info["measures"]["actuation power"] == pytest.approx(cubes, rel=0.01)
        before = flow[-1, 0]
    assert info["measures"]["actuation power"] == pytest.approx(2 * 0.1**3 / 0.1**2)
    env.reset(seed=0)
    assert simulation.jet_flow_rates[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("probes", "size"), [(151, 152), (11, 12), (5, 6)])
def test_jet_probe_sets_have_the_stated_number_of_probes_in_the_flow(probes, size):
    env = gymnasium.make(JETS[0], probes=probes, **SMALLEST[JETS[0]]).unwrapped
    assert env.observation_space.shape == (size,)
    places = np.array(jets.PROBES[probes])
    # three points of the grid also lie on a ring
    assert len(places) == probes
    assert len(np.unique(np.round(places, 9), axis=0)) == (148 if probes == 151 else probes)
    assert np.hypot(*places.T).min() >= 0.7 - 1e-9


@pytest.mark.parametrize("env_id", IDS + JETS)
def test_baselines_have_the_shape_of_the_action(env_id):
    env = gymnasium.make(env_id, **SMALLEST.get(env_id, TINY))
    (size,) = env.action_space.shape
    observations = np.ones((3, *env.observation_space.shape), np.float32)
    shipped = baselines("cases:" + env_id, size)
    assert set(NAMED[env_id]) < set(shipped)
    for controller in shipped.values():
        controller.reset(3)
        actions = controller(observations)
        assert (actions.shape, actions.dtype) == ((3, size), np.float32)
        assert (np.abs(actions) <= 1.0).all()


@pytest.mark.parametrize(
    ("env_id", "name", "own", "other"),
    [
        ("flowsim/SquareJets-v0", "opposition", {"sensors": "base"}, {"sensors": "wake"}),
        ("flowsim/SquareJets-v0", "opposition", {"base_pressures": 64}, {"base_pressures": 4}),
        ("flowsim/PitchingFoil-v0", "linear_feedback", {"past": 3}, {"past": 1}),
        ("flowsim/BackwardStep-v0", "linear_feedback", {"past": 3}, {"past": 1}),
        ("flowsim/BackwardStep-v0", "linear_feedback", {"sensors": "both"}, {"sensors": "shear"}),
        ("flowsim/OpenCavity-v0", "linear_feedback", {"sensors": "both"}, {"sensors": "mouth"}),
    ],
)
def test_baselines_are_offered_only_with_the_sensors_they_read(env_id, name, own, other):
    assert name in baselines(env_id)
    assert name in baselines("cases:" + env_id, 1, 0, own)
    assert name not in baselines("cases:" + env_id, 1, 0, other)
    assert set(baselines(env_id)) - set(baselines(env_id, 1, 0, other)) == {name}


def test_few_base_pressures_are_a_subset_of_many():
    few, many = (
        [gymnasium.make(JETS[1], **SMALLEST[JETS[1]], base_pressures=n), n] for n in (4, 64)
    )
    for env, size in (few, many):
        measured, _ = env.reset(seed=1)
        assert measured.shape == (size + 1,)
    # 13, 26, 39 and 52 of 65 pieces are 1 to 4 of 5
    np.testing.assert_array_equal(few[0].reset(seed=1)[0][:4], many[0].reset(seed=1)[0][12:64:13])
    with pytest.raises(
        ValueError, match="base_pressures = 4: sensors = 'wake' has no base pressures"
    ):
        gymnasium.make(JETS[1], **SMALLEST[JETS[1]], sensors="wake", base_pressures=4)


def test_jet_opposition_reads_the_same_points_in_each_probe_set():
    opposition = NAMED["flowsim/CylinderJets-v0"]["opposition"]
    for places in jets.PROBES.values():
        assert (places[opposition.plus], places[opposition.minus]) == ((0.75, 0.5), (0.75, -0.5))


def test_harmonic_period_and_feedback_delay():
    harmonic = HarmonicController((0.5, -0.25), period=8.0)
    harmonic.reset(1)
    first = np.array([harmonic(np.zeros((1, 2)))[0] for _ in range(8)])
    np.testing.assert_allclose(first.sum(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(harmonic(np.zeros((1, 2)))[0], first[0], atol=1e-6)
    np.testing.assert_allclose(first[:, 1], -0.5 * first[:, 0], atol=1e-6)
    assert first[:4, 0].min() > 0.0

    feedback = FeedbackController((2.0,), plus=1, minus=0, delay=2)
    feedback.reset(1)
    found = [feedback(np.array([[0.1, 0.1 + 0.1 * n]]))[0, 0] for n in range(8)]
    np.testing.assert_allclose(found, [0.0, 0.0, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0], atol=1e-6)


def test_evaluation_prints_measures_against_the_uncontrolled_flow(capsys):
    options = TINY | {"episode_actions": 4}
    agent = baselines_of(IDS[0], options, 0)["constant_spin"]
    pool = EvaluationPool(IDS[0], options, processes=1)
    found = evaluate_with_baselines(IDS[0], options, agent, episodes=2, pool=pool)
    drags = []
    env = gymnasium.make(IDS[0], **options)
    for number in range(2):
        env.reset(seed=episode_seed(Purpose.EVALUATION, 0, number, states=2))
        measures = [env.step(np.float32(agent.action))[4]["measures"] for _ in range(4)]
        drags.append([each["C_D"] for each in measures[2:]])
    assert found["measures"]["C_D"]["mean"] == pytest.approx(np.mean(drags))
    rms = np.sqrt(np.var(drags, axis=1).mean())
    assert found["measures"]["C_D"]["rms"] == pytest.approx(rms)
    assert found["baselines"]["zero"]["measures"]["actuation power"]["mean"] == 0.0
    assert found["baselines"]["constant_spin"]["measures"] == found["measures"]
    tables.print_results({"agent": found} | found["baselines"], 0)
    printed = capsys.readouterr().out
    assert f"{found['measures']['C_D']['mean']:.3f} +-" in printed
    assert "net power" in printed


@pytest.mark.slow
def test_branch_sets_the_side_of_the_jet_between_rear_cylinders(monkeypatch):
    developed = Development(time=150.0, snapshots=3, spacing=0.1, split=True)
    monkeypatch.setattr(pinball, "DEVELOPMENT", developed)
    env = gymnasium.make(IDS[1], cells_per_diameter=8, branch="up").unwrapped
    observed, _ = env.reset(seed=0)
    speeds = []
    for _ in range(20):  # more than two periods
        observed, *_ = env.step(np.zeros(3, np.float32))
        speeds.append(observed[3])  # upwards, 1 D behind the middle between the rear cylinders
    assert np.mean(speeds) > 0.05
