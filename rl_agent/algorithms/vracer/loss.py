"""V-RACER (Novati & Koumoutsakos 2019, section 2 and algorithm 3), with Remember-and-Forget (section 3).

One network gives V(s) and the mean m(s) of a Gaussian policy; its standard deviation sigma is a
parameter shared by all states. With the importance weight rho_t = pi(a_t|s_t) / mu_t(a_t|s_t) and
rho_bar_t = min(1, rho_t):

    V_tbc_t = V(s_t) + rho_bar_t [ r_{t+1} + gamma V_tbc_{t+1} - V(s_t) ]        value target (eq. 8)
    Q_ret_t = r_{t+1} + gamma V_tbc_{t+1}

    L_pi  = -rho_t ( Q_ret_t - V(s_t) ),  the bracket held constant               policy (eqs. 6, 7)
    L_tbc = ( V(s_t) - V_tbc_t )^2 / 2,   the target held constant                value (eq. 9)
    L     = beta ( L_pi + L_tbc ) [near-policy] + (1 - beta) D_KL( mu_t || pi )    ReF-ER (eq. 10)

averaged over a batch of steps sampled from the memory. The targets come from the V_tbc stored there;
afterwards V, rho and KL of the sampled steps are refreshed, and V_tbc of these and all earlier steps of
their episodes is corrected by a backward sweep (``rl_agent/replay/targets.py``).

Implementation details that the paper leaves open:

1. Log importance weights are clipped to +-20 before the exponential (overflow), far outside of any c_max.
2. The bracket of the policy gradient uses the current network's V(s_t) and the stored Q_ret.
3. Options that the paper does not have: ``center_advantages``, ``sigma_min``, ``state_dependent_std``, ``trunks`` (V
   and the policy share no weights), ``gamma_first`` (a growing horizon), ``episode_share``, ``retrace_lambda``
   (Retrace(lambda), ``rl_agent/replay/targets.py``), and ``burn_in``, ``sequence_length`` and ``initial_state`` of an
   LSTM (Kapturowski et al. 2019); see ``config.py``.
4. The densities are those of untruncated normals (``rl_agent/networks/distributions/densities.py``), or with ``policy``
   ``clipped`` those of normals clipped to the range of the actions (Weber et al. 2022, appendix B).
5. If they are not given, gamma, learning rate, memory size, learning start, annealing and initial beta (1, not 0.3) are
   fitted to the run (``config.py``).

Discrete actions (Weber et al. 2022, appendix A): the network outputs V(s) and the logits of pi(a|s), with ``policy``
``boltzmann`` also the inverse temperature (``rl_agent/networks/actor.py``, ``categorical_head``).

Closed-form advantages (appendix E), with ``advantage`` ``quadratic`` or ``gaussian``: the network also outputs the
coefficients of A(s, a), the targets use Q = V + A (eqs. 6, 7), and L_adv (eq. 23) is added to L (``advantages.py``).

Several agents in an environment (Weber et al. 2022, section 2), each with this policy and V(s):
``rl_agent/multi_agent/cooperation.py``. All agents share one network and sigma, or with ``policies`` ``own`` each has
its own.

``loss`` is L as in the paper, for autograd: it is used on a GPU (``rl_agent/networks/optim/gradient_step.py``) and as
the reference in the tests of the faster analytic gradient, which is used on a CPU (``gradient.py``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.algorithms import advantages
from rl_agent.algorithms.algorithm import Algorithm, Tensors, centered, near_policy_masks
from rl_agent.algorithms.vracer import gradient
from rl_agent.algorithms.vracer.config import VRacerConfig
from rl_agent.multi_agent.per_agent import PerAgent
from rl_agent.networks import (
    Network,
    Parallel,
    Parts,
    UnrolledPass,
    Views,
    has_analytic_gradient,
    last_outputs,
    make_network,
    unrolled_outputs,
)
from rl_agent.networks.actor import Actor, categorical_head, gaussian_head
from rl_agent.networks.distributions import densities, sampling
from rl_agent.networks.distributions.std import PolicyStd
from rl_agent.normalization.spaces import Sizes
from rl_agent.replay.batch import Batch, Source, gather_batch, gather_sequences
from rl_agent.runtime.lazy_torch import torch

__all__ = ["VRacer", "make_actor"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


def make_actor(config: VRacerConfig, sizes: Sizes) -> Actor:
    """Build the actor; its network outputs V(s), the policy's statistics, and advantage coefficients, if any."""
    own, std = sizes.choices or sizes.action, _std(config, sizes)
    has_temperature = config.policy == "boltzmann"
    coefficients = advantages.count_coefficients(config.advantage, sizes.action)
    further = int(has_temperature) if sizes.choices else std.outputs + coefficients
    network: Network
    if config.trunks == "separate":
        parts = (1, own + further)
        network = Parallel(*(make_network(config, sizes.observation, outputs) for outputs in parts))
    else:
        network = make_network(config, sizes.observation, 1 + own + further)
    if std.policies > 1:
        network = PerAgent(network, std.policies)
    if sizes.choices:
        head = categorical_head(own, has_value=True, has_temperature=has_temperature)
        return Actor(network, 0, head)
    return Actor(network, std.parameters, gaussian_head(own, std, has_value=True))


def _std(config: VRacerConfig, sizes: Sizes) -> PolicyStd:
    """Build sigma, one for each agent of an environment if each has its own policy."""
    policies = sizes.agents_per_env if config.policies == "own" else 1
    return PolicyStd(sizes.action, config.sigma_min, policies, of_state=config.state_dependent_std)


class VRacer(Algorithm):
    """V-RACER; see the module docstring.

    Parameters
    ----------
    config
        Settings of the learner.
    sizes
        Sizes of the task.
    rng
        Samples the initial weights.

    Attributes
    ----------
    weights
        Flat vector: the network's weights, then for a Gaussian the A parameters of sigma (before the softplus) of each
        policy.
    network
        Outputs V(s) and m_1(s), ... m_A(s), or V(s) and the logits of the choices; then the state-dependent increments
        to the parameters of sigma, and the coefficients of A(s, a), if used.
    """

    config: VRacerConfig

    uses_value_targets = True

    def __init__(self, config: VRacerConfig, sizes: Sizes, rng: np.random.Generator) -> None:
        actor, self._std = make_actor(config, sizes), _std(config, sizes)
        loose = actor.size - actor.network.size
        super().__init__(
            config,
            sizes,
            actor,
            Parts(network=actor.network, sigma=loose),
            {"all": ("network", "sigma")},
            rng,
        )
        self.weights[actor.network.size :] = sampling.inverse_softplus(
            config.sigma - config.sigma_min
        )
        self.torch_step.to_device()
        if self._has_analytic_gradient():
            passes = (
                UnrolledPass(self.network)
                if config.learns_sequences
                else self.parts.passes("network")
            )
            self.analytic_gradient = gradient.Gradient(self, passes, self._std)

    def _has_analytic_gradient(self) -> bool:
        config = self.config
        if config.device != "cpu" or config.advantage != "none" or self.sizes.choices:
            return False
        return not config.learns_sequences or has_analytic_gradient(self.network)

    @property
    def window_steps(self) -> int:
        """Number of observations from which V of the last one is estimated, as at the end of a sequence."""
        steps = self.network.history + self.config.sequence_length
        return max(steps, 2) if self.config.stores_states else steps

    def values(self, windows: F32, lengths: I64, states: F32 | None = None) -> F32:
        """Return V at the end of windows of any lengths, shape (n,)."""
        self.torch_step.to_host()
        weights = self.host_weights["network"]
        if states is None:
            return self.network.evaluate(weights, windows, lengths)[:, 0]
        return last_outputs(self.network, weights, windows, lengths, states)[:, 0]

    def gather(self, source: Source, indices: I64) -> tuple[I64, Batch]:
        """Gather sampled steps with their stored targets."""
        history = self.network.history
        if self.config.learns_sequences:
            return gather_sequences(source, indices, history, self.config.sequence_length)
        return gather_batch(source, indices, history)

    def loss(self, weights: torch.Tensor, inputs: Tensors) -> tuple[torch.Tensor, Tensors]:
        """Compute L of a batch as a torch graph of ``weights``.

        Parameters
        ----------
        weights
            Flat weights, shape of ``self.weights``.
        inputs
            The arrays of a ``Batch``, ``weight`` (B,), ``c_max``, ``beta``, ``rule_1`` (1 or 0) and ``rho_clip``.

        Returns
        -------
        loss
            L, a scalar.
        results
            ``value``, ``rho``, ``kl``, ``far`` (1 or 0) and ``td_error`` of shape (B,), ``policy_loss`` and
            ``value_loss``; and ``advantage`` if it has a closed form.
        """
        action, beta = inputs["action"], inputs["beta"]
        views = self.parts.views(weights)
        outputs = self._outputs(views, inputs)
        value = outputs[:, 0]
        if self.sizes.choices:
            log_pi, log_mu, kl = densities.compare_choices(
                action, inputs["behaviour_mean"], self._logits(outputs)
            )
        else:
            mean, sigma, coefficients = self._normal(views, outputs)
            behaviour = inputs["behaviour_mean"], inputs["behaviour_std"]
            log_pi, log_mu, kl = densities.compare_normals(
                action, behaviour, (mean, sigma), self.config.is_clipped
            )
        present = inputs.get("present", torch.ones_like(value))
        kl = kl * present
        log_pi, log_mu, agents_per_env = (
            log_pi * present,
            log_mu * present,
            self.sizes.agents_per_env,
        )
        if self.config.has_full_dynamics:
            log_pi, log_mu = (
                densities.sum_of_each(log, agents_per_env) for log in (log_pi, log_mu)
            )
        rho = torch.minimum(densities.importance_weight(log_pi, log_mu), inputs["rho_clip"])
        far, kept = near_policy_masks(rho, inputs)
        kept = kept * inputs["weight"] * present
        advantage = inputs["q_ret"] - value.detach()
        if self.config.center_advantages:
            advantage = centered(advantage, (1.0 - far) * rho.detach() * present)
        policy_loss = -rho * advantage * kept
        error = inputs["v_tbc"] - value
        value_loss = 0.5 * error**2 * kept
        both, v_f = policy_loss + value_loss, value * present
        if self.config.is_cooperative:
            v_f = densities.mean_of_each(v_f, agents_per_env)
        results = {"value": v_f, "rho": rho, "kl": kl, "far": far, "td_error": error}
        if "present" in inputs:
            results["present"] = present
        if self.config.advantage != "none":
            form = advantages.FORMS[self.config.advantage]
            results["advantage"] = form(coefficients, action, mean.detach(), sigma.detach())
            both = both + kept * advantages.loss(results["advantage"], value, inputs["q_ret"], rho)
        loss = (beta * both + (1.0 - beta) * kl * inputs["weight"]).mean()
        count = kept.sum().clamp(min=1.0)
        return loss, results | {
            "policy_loss": policy_loss.sum() / count,
            "value_loss": value_loss.sum() / count,
        }

    def _outputs(self, views: Views, inputs: Tensors) -> torch.Tensor:
        """Compute the network's outputs at the steps of the batch, shape (B, outputs)."""
        windows = inputs["windows"], inputs["lengths"]
        if "index" not in inputs:
            return self.parts("network", views, *windows)
        index, states = inputs["index"].long(), inputs.get("states")
        return unrolled_outputs(self.parts, "network", views, *windows, index, state=states)

    def _logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the logits of the choices, shape (B, K), multiplied by the inverse temperature if there is one."""
        logits, tail = outputs[:, 1 : 1 + self.sizes.choices], outputs[:, 1 + self.sizes.choices :]
        is_boltzmann = self.config.policy == "boltzmann"
        return logits * torch.nn.functional.softplus(tail) if is_boltzmann else logits

    def _normal(
        self, views: Views, outputs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Split the outputs into m and sigma, shapes (B, A), and the coefficients of the advantage."""
        size, std = self.sizes.action, self._std
        mean, tail = outputs[:, 1 : 1 + size], outputs[:, 1 + size :]
        return mean, std.tensor(tail, views["sigma"][""]), tail[:, std.outputs :]
