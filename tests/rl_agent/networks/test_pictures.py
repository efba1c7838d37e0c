"""Pictures: convolutions, frames that are stored once, and learners with picture observations."""

import gymnasium
import numpy as np
import pytest
import torch
from learners import assert_equal_to_the_bit, finite_differences, source_of

from rl_agent import AgentConfig, Learner
from rl_agent.networks import Conv, make_encoder, make_network
from rl_agent.replay.batch import gather_n_step_transitions
from rl_agent.replay.samplers.score_network import ScoreNetwork
from rl_agent.rollout.in_process import SerialRun

PICTURE = (2, 5, 4)
SMALL = {
    "network": "conv",
    "image_shape": PICTURE,
    "convolutions": ((3, 2, 2), (4, 2, 1)),
    "hidden": (6,),
    "window": 2,
}


class Blink(gymnasium.Env):
    """A pixel that wanders over one of two channels; pressing where it goes to pays."""

    observation_space = gymnasium.spaces.Box(0, 255, (40,), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def _seen(self):
        picture = np.zeros(PICTURE, np.uint8)
        picture[self.turn, self.place // 4, self.place % 4] = 250
        return picture.ravel()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.turn = int(self.np_random.integers(20)), int(self.np_random.integers(2))
        return self._seen(), {}

    def step(self, action):
        reward = float(action == self.turn)
        self.place, self.turn = (self.place + 1) % 20, int(self.np_random.integers(2))
        chance = self.np_random.random()
        return self._seen(), reward, chance < 0.05, chance > 0.95, {}


def a_run(algorithm, **settings):
    common = {"batch_size": 8, "buffer_size": 120, "learning_starts": 60, "learning_rate": 1e-3}
    config = AgentConfig.model_validate({"algorithm": algorithm} | common | SMALL | settings)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    environments = gymnasium.vector.SyncVectorEnv([Blink] * 2, autoreset_mode=mode)
    return SerialRun(
        Learner(config, Blink.observation_space, Blink.action_space, agents=2, seed=1),
        environments,
        seed=2,
    )


def convolve(x, filters, shift, stride):
    """A layer of convolutions in loops: x (C, H, W)."""
    side = filters.shape[2]
    height, width = ((n - side) // stride + 1 for n in x.shape[1:])
    out = np.zeros((len(filters), height, width))
    for i in range(height):
        for j in range(width):
            patch = x[:, i * stride : i * stride + side, j * stride : j * stride + side]
            out[:, i, j] = (filters * patch).sum((1, 2, 3)) + shift
    return np.maximum(out, 0.0)


def by_loops(network, flat, windows, b):
    w = {name: block.astype(float) for name, block in network.views(flat).items()}
    x = np.concatenate([frame.reshape(PICTURE) for frame in windows[:, b]])
    for layer, (_, _, stride) in enumerate(SMALL["convolutions"]):
        x = convolve(x, w[f"filter{layer}"], w[f"shift{layer}"], stride)
    h = np.maximum(x.ravel() @ w["weight0"] + w["bias0"], 0.0)
    return h @ w["weight1"] + w["bias1"]


def test_outputs_and_gradient_match_plain_loops():
    network, rng = (
        make_network(AgentConfig(algorithm="ppo", **SMALL), 40, 3),
        np.random.default_rng(0),
    )
    flat = network.initialise(rng) + 0.05 * rng.standard_normal(network.size).astype(np.float32)
    windows, d = (
        rng.uniform(size=(3, 2, 40)).astype(np.float32),
        rng.normal(size=(2, 3)).astype(np.float32),
    )
    tape, lengths = network.tape(3, 2), np.array([3, 3])
    outputs = network.forward(network.views(flat), windows, lengths, tape)
    for b in range(2):
        np.testing.assert_allclose(
            outputs[b], by_loops(network, flat, windows, b), rtol=1e-4, atol=1e-5
        )
    gradient = np.empty_like(flat)
    network.backward(network.views(flat), tape, lengths, d, network.views(gradient))
    loss = lambda of: sum(d[b] @ by_loops(network, of, windows, b) for b in range(2))  # noqa: E731
    some = rng.permutation(network.size)[:15]
    np.testing.assert_allclose(
        gradient[some], finite_differences(loss, flat.astype(float), some), rtol=1e-3, atol=1e-4
    )


def test_a_policy_acts_on_the_frames_that_the_memory_stacks():
    run = a_run("vracer", replay="refer")
    run.run(100)
    memory, scale, algorithm = run.learner.memory, run.learner.state_scale, run.learner.algorithm
    assert (
        memory.storage.observation.dtype
        == run.learner.collector.open_episodes.observation.dtype
        == np.uint8
    )
    indices = memory.storage.indices()
    np.testing.assert_allclose(scale.per_std, 1.0 / 255.0)
    windows = memory.storage.windows(indices, 3, scale.mean, scale.per_std)
    state = np.zeros((1, 80), np.float32)
    for b, k in enumerate(indices[:30]):
        if memory.storage.position[k] == 0:
            state = np.zeros((1, 80), np.float32)
        past = [
            memory.storage.observation[k - back]
            if memory.storage.position[k] >= back
            else np.zeros(40)
            for back in (2, 1, 0)
        ]
        np.testing.assert_allclose(windows[:, b], np.array(past) / 255.0, rtol=1e-6)
        seen = scale(memory.storage.observation[k : k + 1])
        acting = algorithm.act(seen, state)
        # no gradient step was taken yet
        assert memory.values.value[k] == pytest.approx(acting.value[0], abs=1e-6)
        state = acting.state


def test_a_million_pictures_take_less_than_eight_gigabytes():
    """Bytes per step, counted over all arrays of a small memory."""
    learner = Learner(
        AgentConfig(
            algorithm="rainbow",
            network="conv",
            image_shape=(1, 84, 84),
            buffer_size=2000,
            learning_starts=100,
        ),
        gymnasium.spaces.Box(0, 255, (84 * 84,), np.uint8),
        gymnasium.spaces.Discrete(18),
        agents=1,
        seed=0,
    )
    per_step = [
        array
        for part in (learner.memory.storage, learner.memory.values)
        for array in vars(part).values()
        if isinstance(array, np.ndarray) and len(array) == 2000
    ]
    assert len(per_step) == 14
    sampler = sum(
        array.nbytes for array in (learner.sampler._tree, learner.sampler._priorities.error)
    )
    assert 500 * (sum(array.nbytes for array in per_step) + sampler) < 8e9


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("dqn", {}),
        ("rainbow", {"atoms": 5, "n_step": 3}),
        ("rainbow", {"atoms": 5, "sampler": "ners"}),
        ("vracer", {}),
        ("acer", {"episodes": 3, "segment": 5}),
        ("ppo", {"horizon": 60, "epochs": 2}),
    ],
)
def test_learners_of_pictures_resume_bit_for_bit(algorithm, settings, tmp_path):
    run = a_run(algorithm, env_steps_per_gradient_step=4.0, **settings)
    run.run(120)
    run.learner.save(tmp_path / "agent.npz")
    other = a_run(algorithm, env_steps_per_gradient_step=4.0, **settings)
    other.run(120)
    other.learner = Learner.load(tmp_path / "agent.npz")
    for one in (run, other):
        one.run(40)
    assert run.learner.gradient_steps > 5
    assert_equal_to_the_bit(run.learner, other.learner)


def test_the_gradient_of_scores_reaches_the_convolutions():
    config, rng = AgentConfig(algorithm="dqn", **SMALL), np.random.default_rng(0)
    picture = Conv(make_encoder(config), 40, 2, (5,), 32)
    network = ScoreNetwork(3, rng, picture=picture, pictures=2)
    features, d = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=6).astype(np.float32)
    stacks = rng.uniform(size=(3, 12, 40)).astype(np.float32)
    scores = network(features, stacks).copy()
    network.differentiate(d)
    weights = torch.tensor(network.weights, dtype=torch.float64, requires_grad=True)
    views = network._parts.views(weights)
    encoded = torch.tanh(
        picture.reference(
            views["picture"], torch.tensor(stacks, dtype=torch.float64), torch.ones(12)
        )
    )
    x = torch.cat([torch.tensor(features, dtype=torch.float64), encoded[:6], encoded[6:]], 1)[None]
    of = lambda name, seen: network._parts.parts[name].reference(views[name], seen, torch.ones(6))  # noqa: E731
    seen = torch.cat([of("local", x), of("context", x).mean(0).expand(6, -1)], 1)
    expected = torch.sigmoid(of("score", seen[None])[:, 0])
    np.testing.assert_allclose(scores, expected.detach(), rtol=1e-4)
    (expected @ torch.tensor(d, dtype=torch.float64)).backward()
    np.testing.assert_allclose(network.gradient, weights.grad, rtol=2e-3, atol=1e-6)
    assert np.abs(network.gradient[network._parts.slices["picture"]]).max() > 1e-5


def test_task_that_needs_pictures_is_learned():
    """Which channel is lit says what pays: all or half of the rewards."""
    run = a_run("dqn", hidden=(16,), buffer_size=600, gamma=0.0, epsilon_steps=300, epsilon=0.02, learning_rate=3e-3,
                env_steps_per_gradient_step=1.0, target_update_interval=50)  # fmt: skip
    run.run(700)
    run.learner.finished_episodes()
    run.run(150)
    ended = run.learner.finished_episodes()
    assert sum(e.episode_return for e in ended) > 0.9 * sum(e.length for e in ended)


def test_invalid_pictures_are_refused_in_one_sentence():
    def refused(
        match,
        space=Blink.observation_space,
        actions=Blink.action_space,
        algorithm="dqn",
        **settings,
    ):
        config = AgentConfig(
            algorithm=algorithm, buffer_size=90, learning_starts=9, **SMALL | settings
        )
        with pytest.raises(ValueError, match=match):
            Learner(config, space, actions, agents=1, seed=0)

    box = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    refused("does not fit observations of 40", image_shape=(1, 5, 4))
    refused("whole numbers from 0 to 255", space=gymnasium.spaces.Box(-1.0, 1.0, (40,)))
    refused("reduce an image of 5 x 4 to nothing", convolutions=((3, 8, 4),))
    refused("needs discrete actions", actions=box)
    refused("acer with network = conv needs discrete", actions=box, algorithm="acer")


@pytest.mark.parametrize("value", [0.7, 300.0, -1.0])
def test_values_that_are_no_pixels_are_refused(value):
    config = AgentConfig(algorithm="dqn", buffer_size=90, learning_starts=9, **SMALL)
    space = gymnasium.spaces.Box(0.0, 255.0, Blink.observation_space.shape, np.float32)
    learner = Learner(config, space, Blink.action_space, agents=2, seed=0)
    seen = np.full((2, *space.shape), 255.0)
    learner.begin([0, 1], seen)
    learner.act([0, 1])
    assert learner.learnable(seen).all()
    seen[1, -1] = value
    assert learner.learnable(seen).tolist() == [True, False]
    with pytest.raises(ValueError, match="agent 1 sent an image whose values are not all whole"):
        learner.observe([0, 1], np.zeros(2), [False] * 2, [False] * 2, seen)


def test_n_step_observations_stack_earlier_frames():
    run = a_run("dqn")
    run.run(110)
    memory = run.learner.memory
    indices = memory.storage.indices()
    _, found = gather_n_step_transitions(source_of(memory), indices, 2, 2, clips_rewards=False)
    assert found.next_windows.dtype == np.float32
    torch.testing.assert_close(torch.from_numpy(found.next_windows).amax(), torch.tensor(250.0))
