"""DQN (Mnih et al. 2015) and Rainbow (Hessel et al. 2018), whose components are settings of DQN.

With n-step targets (``n_step``), where m is n, or less if the episode ended earlier:

    R_t   = sum_{k=0}^{m-1} gamma^k r_{t+k+1}
    a*    = argmax_a Q~(s_{t+m}, a), or with ``double`` argmax_a Q(s_{t+m}, a)        (van Hasselt et al. 2016, eq. 4)
    q_t   = R_t + gamma^m Q~(s_{t+m}, a*),   without the second term after a terminal state
    L     = h( q_t - Q(s_t, a_t) ),   h(x) = x^2 / 2 up to |x| = 1, then |x| - 1/2    the error clipping of its methods

With a distribution of returns over z_1 ... z_N (``atoms``; Bellemare et al. 2017, eq. 7 and algorithm 1):

    Q     = sum_i z_i p_i(s, a),   p = softmax of the network's logits
    m_j   = sum_i clip( 1 - | clip( R_t + gamma^m z_i ) - z_j | / dz, 0, 1 ) p~_i(s_{t+m}, a*)
    L     = - sum_j m_j log p_j(s_t, a_t)

``dueling`` and ``noisy`` are in ``rl_agent/networks/q_network.py``. Actions are greedy with respect to Q, or uniformly
random with probability epsilon, which decreases from 1 over ``epsilon_steps``. With noisy layers epsilon is 0, and the
noise is resampled for every gradient step: for Q, for Q~ and for acting until the next one. Evaluation uses no noise.

Defaults of ``dqn``: Mnih et al. 2015, extended data table 1, where they apply. Those of ``rainbow``: the
data-efficient ones of van Hasselt et al. 2019, appendix E, as in the NERS paper, table B.1: double, dueling, noise
0.1, 20 steps, 51 atoms in [-10, 10], batch 32, learning rate 1e-4, Adam's epsilon 1.5e-4, gradient norm at most 10,
target update every 2000 gradient steps, prioritised replay (alpha 0.5, beta 0.4), learning starts after 1600 steps.
Settings that are not given are fitted to the length of the run (``config.py``).

Differences from the papers:

1. ``dqn`` uses Adam instead of RMSProp.
2. Rewards are clipped only with ``clip_rewards``; otherwise they are scaled, as in all algorithms here.
3. Noise is sampled per gradient step, not per action; all agents act with the same noise.
4. With a return distribution, the priority is its loss, as in Rainbow; ``td_error`` is always that of the means.
5. Episodes enter the memory when they end (or in fragments), so the newest steps cannot be sampled yet.
6. Initialisation of layers without noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms.algorithm import Algorithm, Tensors
from rl_agent.algorithms.dqn.config import DQNConfig
from rl_agent.networks import Parts, make_encoder
from rl_agent.networks.actor import Acting, Actor, Head
from rl_agent.networks.q_network import QNetwork, squashed_noise
from rl_agent.normalization.spaces import Sizes
from rl_agent.replay.batch import Source, Transitions, gather_n_step_transitions
from rl_agent.runtime.lazy_torch import torch

__all__ = ["DQN", "make_actor", "project"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


def make_actor(config: DQNConfig, sizes: Sizes) -> Actor:
    """Build the epsilon-greedy policy; epsilon is its loose parameter."""
    network, atoms = _make_network(config, sizes), _atoms(config)

    def q_values(outputs: torch.Tensor) -> torch.Tensor:
        return _q_values(outputs, sizes.choices, torch.from_numpy(atoms))

    def statistics(outputs: F32, loose: F32) -> tuple[F32, F32, F32]:
        q = q_values(torch.from_numpy(outputs)).numpy()
        probabilities = np.full(q.shape, loose[0] / sizes.choices, np.float32)
        probabilities[np.arange(len(q)), q.argmax(axis=1)] += 1.0 - loose[0]
        return q.max(axis=1), probabilities, np.zeros((len(q), 0), np.float32)

    head = Head(statistics, q_values)
    return Actor(network, 1, head, noise=network.noise_size, explores=True)


def _make_network(config: DQNConfig, sizes: Sizes) -> QNetwork:
    encoder = make_encoder(config) if config.network == "conv" else None
    return QNetwork(
        sizes.observation,
        config.frames - 1 if encoder is None else config.window,
        config.hidden_sizes,
        sizes.choices,
        config.atoms,
        encoder=encoder,
        is_dueling=config.dueling,
        sigma=config.noise_sigma if config.noisy else None,
    )


def _atoms(config: DQNConfig) -> F32:
    return np.linspace(-config.value_limit, config.value_limit, config.atoms, dtype=np.float32)


def _q_values(outputs: torch.Tensor, choices: int, atoms: torch.Tensor) -> torch.Tensor:
    """Compute Q of every action, shape (B, K), from the network's outputs."""
    if len(atoms) == 1:
        return outputs
    return torch.softmax(outputs.view(-1, choices, len(atoms)), 2) @ atoms.to(outputs)


def project(
    probabilities: torch.Tensor, returns: torch.Tensor, atoms: torch.Tensor
) -> torch.Tensor:
    """Project a distribution onto the atoms (Bellemare et al. 2017, eq. 7).

    Parameters
    ----------
    probabilities, returns
        Probability of each atom and the return to which it is shifted, shape (B, N).
    atoms
        z, evenly spaced, shape (N,).

    Returns
    -------
    Tensor
        Probabilities of the atoms after projection, shape (B, N).
    """
    returns = returns.clamp(atoms[0], atoms[-1])
    distance = (returns[:, :, None] - atoms).abs() / (atoms[1] - atoms[0])
    return (probabilities[:, :, None] * (1.0 - distance).clamp(0.0, 1.0)).sum(1)


class DQN(Algorithm):
    """A network for Q of discrete actions and its target; see the module docstring."""

    config: DQNConfig

    def __init__(self, config: DQNConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor = make_actor(config, sizes)
        assert isinstance(actor.network, QNetwork)
        self.q_network = actor.network
        self._atoms = torch.from_numpy(_atoms(config))
        self.acting_noise: F32 = np.zeros(self.q_network.noise_size, np.float32)
        super().__init__(
            config, sizes, actor, Parts(q=actor.network, epsilon=1), {"q": ("q", "q")}, rng
        )
        self.optimiser.adams["q"].epsilon = config.adam_epsilon
        self.torch_step.max_norm = config.max_gradient_norm

    def act(self, observations: F32, state: F32) -> Acting:
        """Evaluate the newest policy with the current noise and epsilon."""
        self.torch_step.to_host()
        self.host_weights["epsilon"][""][:] = self.epsilon
        if len(self.acting_noise):
            self.host_weights["q"]["noise"][:] = self.acting_noise
        return self._act(observations, state)

    @property
    def epsilon(self) -> float:
        """Probability of a random action: from 1 to ``config.epsilon`` over ``epsilon_steps`` environment steps."""
        config = self.config
        steps = self.optimiser.adams["q"].steps * config.env_steps_per_gradient_step
        if config.noisy:
            return 0.0
        share = min(1.0, steps / config.epsilon_steps)
        return (1.0 - share) + share * config.epsilon

    def statistics(self) -> dict[str, float]:
        """Return ``epsilon``."""
        return {"epsilon": self.epsilon}

    def gather(self, source: Source, indices: I64) -> tuple[I64, Transitions]:
        """Gather n-step transitions; ``nonterminal`` is gamma^(m-1), 0 at terminal states."""
        config = self.config
        return gather_n_step_transitions(
            source,
            indices,
            self.network.history,
            config.n_step,
            clips_rewards=config.clip_rewards,
        )

    def inputs(self, batch: Any, weight: F32 | None) -> dict[str, Any]:
        """Add the noise of both networks, and resample the noise used for acting."""
        inputs, size = super().inputs(batch, weight), self.q_network.noise_size
        if size:
            inputs |= {name: squashed_noise(size, self._rng) for name in ("noise", "target_noise")}
            self.acting_noise = squashed_noise(size, self._rng)
        return inputs

    def target_rate(self) -> float:
        """Return ``tau`` every ``target_update_interval`` gradient steps, otherwise 0."""
        is_due = (self.optimiser.adams["q"].steps + 1) % self.config.target_update_interval == 0
        return self.config.tau if is_due else 0.0

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute L of a batch of transitions."""
        views, detached = self.parts.views(weights)["q"], self.parts.views(weights.detach())["q"]
        target = self.parts.views(inputs["target_weights"])["q"]
        if "noise" in inputs:
            views, detached = ({**of, "noise": inputs["noise"]} for of in (views, detached))
            target = {**target, "noise": inputs["target_noise"]}
        atoms, rows = (
            self._atoms.to(weights),
            torch.arange(len(inputs["action"]), device=weights.device),
        )
        choices, taken = self.sizes.choices, inputs["action"][:, 0].long()
        outputs = self.q_network.reference(views, inputs["windows"], inputs["lengths"])
        q = _q_values(outputs, choices, atoms)[rows, taken]
        gamma = inputs["gamma"] * inputs["nonterminal"]
        with torch.no_grad():
            after = inputs["next_windows"], inputs["next_lengths"]
            following = self.q_network.reference(target, *after)
            of_target = _q_values(following, choices, atoms)
            by = (
                _q_values(self.q_network.reference(detached, *after), choices, atoms)
                if self.config.double
                else of_target
            )
            best = by.argmax(1)
            q_target = inputs["reward"] + gamma * of_target[rows, best]
        error = q_target - q
        if len(atoms) == 1:
            each = torch.nn.functional.huber_loss(q, q_target, reduction="none")
            priority = error
        else:
            with torch.no_grad():
                each_after = torch.softmax(following.view(-1, choices, len(atoms))[rows, best], 1)
                aim = project(each_after, inputs["reward"][:, None] + gamma[:, None] * atoms, atoms)
            each = -(
                aim * torch.log_softmax(outputs.view(-1, choices, len(atoms))[rows, taken], 1)
            ).sum(1)
            priority = each
        ones, zeros = torch.ones_like(q), torch.zeros_like(q)
        results = {
            "value": q,
            "rho": ones,
            "kl": zeros,
            "far": zeros,
            "td_error": error,
            "priority": priority,
        }
        results |= {"policy_loss": -q.mean(), "value_loss": each.mean()}
        return (inputs["weight"] * each).mean(), results

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a checkpoint, including the noise used for acting."""
        return super().arrays() | {"acting_noise": self.acting_noise}
