import gymnasium
import numpy as np
import pytest
import torch

from rl_agent import AgentConfig, Learner
from rl_agent.networks import LSTM, MLP, Parallel, Parts, make_network
from rl_agent.replay.batch import Source, gather_batch

NETWORKS = {
    "mlp": MLP(5, (16, 8), 3),
    "mlp of relu": MLP(5, (16, 8), 3, "relu"),
    "mlp of tanh": MLP(5, (16, 8), 3, "tanh"),
    "lstm": LSTM(5, (8, 6), 3, window=7),
    "deep lstm": LSTM(4, (5, 6, 7), 2, window=3),
    "lstm without a past": LSTM(5, (8, 6), 3, window=0),
}
BURN_IN = {
    "burn-in": LSTM(5, (8, 6), 3, window=4, burn_in=3),
    "burn-in only": LSTM(5, (8, 6), 3, window=0, burn_in=5),
}
# without actions beside their observations
ABREAST = {
    "mlps abreast": Parallel(MLP(5, (16, 8), 1), MLP(5, (8,), 3)),
    "mlp of frames": MLP(5, (16, 8), 3, history=3),
    "lstms abreast": Parallel(LSTM(5, (8, 6), 1, window=4), LSTM(5, (4,), 2, window=4)),
}
CRITICS = NETWORKS | BURN_IN | {"critic of frames": MLP(5, (16, 8), 3, history=3, actions=2)}


def windows_of(network, rng, batch=37, lengths=None):
    """Random windows of random lengths, sorted, zero before their beginning."""
    steps = network.history + 1
    if lengths is None:
        lengths = rng.integers(1, steps + 1, batch)
    lengths = np.sort(lengths)[::-1].copy()
    windows = rng.standard_normal((steps, len(lengths), network.inputs)).astype(np.float32)
    windows[np.arange(steps)[:, None] < steps - lengths[None]] = 0.0
    return windows, lengths


def random_weights(network, rng):
    return network.initialise(rng) + 0.2 * rng.standard_normal(network.size).astype(np.float32)


@pytest.mark.parametrize("name", NETWORKS | BURN_IN | ABREAST)
def test_analytic_passes_equal_autograd(name):
    network = (NETWORKS | BURN_IN | ABREAST)[name]
    rng = np.random.default_rng(1)
    weights = random_weights(network, rng)
    tape = network.tape(network.history + 1, 37)
    # twice with the same tape: values left by an earlier, longer batch must have no effect
    for lengths in (np.full(37, network.history + 1), None):
        windows, lengths = windows_of(network, rng, lengths=lengths)
        d_outputs = rng.standard_normal((37, network.outputs)).astype(np.float32)
        outputs = network.forward(network.views(weights), windows, lengths, tape)
        gradient = np.full(network.size, np.nan, np.float32)
        network.backward(network.views(weights), tape, lengths, d_outputs, network.views(gradient))

        graph = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
        reference = network.reference(graph, torch.tensor(windows).double(), torch.tensor(lengths))
        (expected,) = torch.autograd.grad((reference * torch.tensor(d_outputs)).sum(), graph)
        np.testing.assert_allclose(outputs, reference.detach().numpy(), atol=3e-6)
        np.testing.assert_allclose(gradient, expected.numpy(), atol=3e-5)
        assert expected.abs().max() > 1.0


@pytest.mark.parametrize("wanted", ["both", "weights", "actions"])
@pytest.mark.parametrize("name", CRITICS)
def test_analytic_passes_of_a_critic_equal_autograd(name, wanted):
    """Several actions per window, windows in any order, some of a single observation."""
    parts, rng = Parts(other=3, critic=CRITICS[name]), np.random.default_rng(8)
    network = CRITICS[name]
    weights = np.concatenate([np.ones(3), random_weights(network, rng)]).astype(np.float32)
    windows, lengths = windows_of(network, rng, batch=23)
    shuffled = rng.permutation(23)
    windows, lengths = windows[:, shuffled, :-2], lengths[shuffled]
    assert 1 in lengths
    actions = rng.standard_normal((4, 23, 2)).astype(np.float32)
    slope = torch.tensor(rng.standard_normal((4, 23, network.outputs)))

    def outputs_and_gradients(dtype):
        flat = torch.tensor(weights, dtype=dtype, requires_grad=wanted != "actions")
        chosen = torch.tensor(actions, dtype=dtype, requires_grad=wanted != "weights")
        inputs = torch.tensor(windows, dtype=dtype), torch.tensor(lengths)
        outputs = parts("critic", parts.views(flat), *inputs, chosen)
        leaves = [leaf for leaf in (flat, chosen) if leaf.requires_grad]
        return outputs, torch.autograd.grad((outputs * slope.to(dtype)).sum(), leaves)

    outputs, gradients = outputs_and_gradients(torch.float32)
    expected, references = outputs_and_gradients(torch.float64)
    np.testing.assert_allclose(outputs.detach(), expected.detach(), atol=3e-6)
    for gradient, reference in zip(gradients, references, strict=True):
        scale = float(reference.abs().max())
        assert scale > 5e-3
        np.testing.assert_allclose(gradient, reference, atol=1e-5 * max(scale, 0.1))


def test_windows_of_one_step_need_no_earlier_steps():
    network = NETWORKS["lstm"]
    parts, rng = Parts(critic=network), np.random.default_rng(9)
    views = parts.views(torch.tensor(random_weights(network, rng), requires_grad=True))
    windows, _ = windows_of(network, rng, lengths=np.full(5, 1))
    one, action = torch.ones(5), torch.tensor(windows[-1, :, 3:])
    outputs = parts("critic", views, torch.tensor(windows[:, :, :3].copy()), one, action)
    plain = parts("critic", views, torch.tensor(windows), one)
    np.testing.assert_allclose(outputs.detach(), plain.detach(), atol=1e-6)
    for of in (outputs, plain):
        (slope,) = torch.autograd.grad(of.sum(), views["critic"]["cell0"], retain_graph=True)
        assert not slope[:, 5:-1].any()
        assert slope[:, :5].abs().max() > 0.01


def test_short_windows_need_no_earlier_steps():
    network = NETWORKS["lstm"]
    rng = np.random.default_rng(2)
    weights = network.views(random_weights(network, rng))
    windows, lengths = windows_of(network, rng, lengths=np.full(9, 3))
    outputs = network.forward(weights, windows, lengths, network.tape(8, 9))
    shorter = network.forward(weights, windows[-3:].copy(), lengths, network.tape(3, 9))
    np.testing.assert_array_equal(outputs, shorter)


@pytest.mark.parametrize("name", NETWORKS | ABREAST)
def test_reference_gradient_equals_finite_differences(name):
    network = (NETWORKS | ABREAST)[name]
    rng = np.random.default_rng(4)
    windows, lengths = windows_of(network, rng, batch=2)
    weights = torch.tensor(random_weights(network, rng), dtype=torch.float64, requires_grad=True)
    inputs = torch.tensor(windows).double()
    assert torch.autograd.gradcheck(
        lambda w: network.reference(w, inputs, torch.tensor(lengths)), (weights,)
    )


@pytest.mark.parametrize("name", BURN_IN)
def test_the_state_after_the_burn_in_is_a_constant_for_the_gradient(name):
    """Finite differences over the steps after it, from the state that the same weights reach in it."""
    network = BURN_IN[name]
    rng = np.random.default_rng(14)
    weights = random_weights(network, rng)
    windows, lengths = windows_of(network, rng, lengths=np.full(4, network.history + 1))
    slope = rng.standard_normal((4, network.outputs))
    double = torch.tensor(windows).double()

    def run(flat, state, steps):
        for t in steps:
            outputs, state = network.reference_step(network.views(flat), double[t], state)
        return outputs, state

    first = range(network.burn_in)
    flat = torch.tensor(weights).double()
    _, state = run(flat, torch.zeros(4, *network.state_shape).double(), first)
    loss = lambda w: float(  # noqa: E731
        (
            run(torch.tensor(w), state, range(network.burn_in, len(windows)))[0]
            * torch.tensor(slope)
        ).sum()
    )
    tape, gradient = network.tape(len(windows), 4), np.empty(network.size, np.float32)
    network.forward(network.views(weights), windows, lengths, tape)
    network.backward(
        network.views(weights),
        tape,
        lengths,
        slope.astype(np.float32),
        network.views(gradient),
    )
    exact, step = weights.astype(float), 1e-6
    for k in rng.choice(network.size, 60, replace=False):
        there, back = exact.copy(), exact.copy()
        there[k] += step
        back[k] -= step
        expected = (loss(there) - loss(back)) / (2 * step)
        assert gradient[k] == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert np.abs(gradient).max() > 1.0


@pytest.mark.parametrize("name", NETWORKS | BURN_IN | ABREAST)
def test_acting_along_an_episode_equals_evaluating_its_window(name):
    network = (NETWORKS | BURN_IN | ABREAST)[name]
    rng = np.random.default_rng(5)
    flat = random_weights(network, rng)
    weights = network.views(flat)
    windows, lengths = windows_of(network, rng, lengths=np.full(6, network.history + 1))
    state = np.zeros((6, *network.state_shape), np.float32)
    for observations in windows:
        outputs, state = network.step(weights, observations, state)
    expected = network.forward(weights, windows, lengths, network.tape(len(windows), 6))
    np.testing.assert_allclose(outputs, expected, atol=2e-6)


def test_lstm_matches_torch():
    network = LSTM(3, (4,), 2, window=5)
    rng = np.random.default_rng(6)
    flat = random_weights(network, rng)
    w = network.views(flat)
    theirs = torch.nn.LSTM(3, 4)
    # their gates stand in the order i, f, g, o; ours i, f, o, g
    order = np.r_[0:8, 12:16, 8:12]
    cell = torch.tensor(w["cell0"][order])
    with torch.no_grad():
        theirs.weight_ih_l0[:] = cell[:, :3]
        theirs.weight_hh_l0[:] = cell[:, 3:7]
        theirs.bias_ih_l0[:] = cell[:, 7]
        theirs.bias_hh_l0[:] = 0.0
    windows, lengths = windows_of(network, rng, lengths=np.full(5, 6))
    h = theirs(torch.tensor(windows))[0][-1].detach().numpy()
    outputs = network.forward(w, windows, lengths, network.tape(6, 5))
    np.testing.assert_allclose(outputs, h @ w["weight"].T + w["bias"], atol=1e-6)


def test_initial_weights_fill_the_bounds_of_appendix_a():
    network = make_network(AgentConfig(), 17, 7)
    w = network.views(network.initialise(np.random.default_rng(0)))
    for layer, fans in ((0, 17 + 128), (1, 128 + 128)):
        bound = np.sqrt(6 / fans)
        assert 0.99 * bound < np.abs(w[f"weight{layer}"]).max() <= bound
    assert 0.98 * 0.1 / np.sqrt(128) < np.abs(w["weight2"]).max() <= 0.1 / np.sqrt(128)
    assert not any(w[f"bias{layer}"].any() for layer in range(3))


def test_initial_lstm_remembers_and_has_outputs_near_zero():
    network = make_network(AgentConfig(network="lstm"), 14, 4)
    assert isinstance(network, LSTM)
    flat = network.initialise(np.random.default_rng(0))
    w = network.views(flat)
    np.testing.assert_array_equal(w["cell1"][:, -1], np.repeat([0.0, 1.0, 0.0, 0.0], 32))
    outputs, _ = network.step(w, np.ones((1, 14), np.float32), np.zeros((1, 128), np.float32))
    assert np.abs(outputs).max() < 0.1


def test_acting_on_the_window_matches_training():
    """For episodes of any length, the means stored while acting equal those of the windows sampled later."""
    space = gymnasium.spaces.Box(-9, 9, (3,), np.float32)
    config = AgentConfig(
        network="lstm", acting="window", window=4, buffer_size=400, learning_starts=40, batch_size=8
    )
    learner = Learner(
        config, space, gymnasium.spaces.Box(-1, 1, (2,), np.float32), agents=2, seed=0
    )
    rng, both = np.random.default_rng(1), np.arange(2)
    learner.begin(both, rng.standard_normal((2, 3)))
    for step in range(30):
        learner.act(both)
        ended = np.full(2, step == 29)
        learner.observe(
            both, rng.standard_normal(2), np.zeros(2, bool), ended, rng.standard_normal((2, 3))
        )
    memory, scale = learner.memory, learner.state_scale
    # the scale of the states was frozen when these episodes ended: act as before, unscaled
    source = Source(memory, np.zeros_like(scale.mean), np.ones_like(scale.mean), 0.99, 1.0)
    indices, batch = gather_batch(source, memory.storage.indices(), 4)
    assert memory.storage.position[indices].max() == 29
    np.testing.assert_allclose(
        learner.algorithm.values(batch.windows, batch.lengths),
        memory.values.value[indices],
        atol=1e-6,
    )
