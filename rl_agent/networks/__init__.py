"""The networks of the paper, each implemented twice; tests check that the two agree.

``reference`` is a few lines of torch, differentiated by autograd. ``forward`` and ``backward`` are explicit passes over
BLAS and compiled kernels, several times faster. Both read the same flat float32 vector of weights, so that the
optimiser, checkpoints and snapshots handle one array.

A critic takes actions in addition to observations: its ``inputs`` are S + A, and it can be evaluated for several
actions per window. The actions are appended to the last observation of the window, zeros to the earlier ones, so that
an LSTM processes the window up to its last step once for all actions.

Initialisation (appendix A): hidden weights Glorot-uniform, bound sqrt(6 / (fan_in + fan_out)); output
weights uniform in +-0.1 / sqrt(fan_in), so that the outputs start near zero; biases zero, except the
forget gate's (1, so that a cell initially remembers; the paper does not specify it).
"""

from rl_agent.config import AgentConfig
from rl_agent.networks.conv import Conv, Encoder
from rl_agent.networks.lstm import LSTM, WindowLSTM
from rl_agent.networks.mlp import MLP
from rl_agent.networks.network import Network
from rl_agent.networks.parallel import Parallel
from rl_agent.networks.parameter_views import Arrays, Parts, Views
from rl_agent.networks.passes import Pass
from rl_agent.networks.unroll import (
    UnrolledPass,
    has_analytic_gradient,
    last_outputs,
    unrolled_outputs,
)

__all__ = [
    "LSTM",
    "MLP",
    "Arrays",
    "Conv",
    "Network",
    "Parallel",
    "Parts",
    "Pass",
    "UnrolledPass",
    "Views",
    "WindowLSTM",
    "has_analytic_gradient",
    "last_outputs",
    "make_encoder",
    "make_network",
    "unrolled_outputs",
]


def make_encoder(config: AgentConfig) -> Encoder:
    """Build the convolutions of ``network`` conv."""
    assert config.image_shape is not None
    return Encoder(config.image_shape, config.window + 1, config.convolutions)


def make_network(config: AgentConfig, inputs: int, outputs: int, actions: int = 0) -> Network:
    """Build the network ``config.network``; the last ``actions`` of the inputs are the action inputs of a critic."""
    if config.network == "mlp":
        history = config.frames - 1
        return MLP(inputs, config.hidden_sizes, outputs, config.activation, history, actions)
    if config.network == "conv":
        return Conv(make_encoder(config), inputs, config.window, config.hidden_sizes, outputs)
    kind = WindowLSTM if config.acting == "window" else LSTM
    return kind(inputs, config.hidden_sizes, outputs, config.window, config.burn_in)
