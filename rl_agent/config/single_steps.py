"""Algorithms that draw single steps of a memory: V-RACER, DDPG, NAF, TD3 and SAC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from rl_agent.config.agent import (
    Activation,
    AgentConfig,
    Count,
    Few,
    Hidden,
    NotNegative,
    PositiveStd,
    Rate,
    Replay,
    Share,
    Squash,
    Steps,
)
from rl_agent.config.kinds import ActorCritic, DrawsSteps, WithTarget


class VRacerConfig(DrawsSteps):
    """V-RACER.

    Attributes
    ----------
    policy
        ``normal``, or ``clipped``, the normal clipped to the range of the actions, whose densities know that all beyond
        a bound is the same action (Weber et al. 2022, appendix B). Discrete actions are drawn by a softmax of logits in
        the place of the normal, or with ``boltzmann`` by one with a learned inverse temperature (appendix A).
    relation
        Several agents in a world: whose reward an agent's value counts, its own (``individual``) or the mean over the
        world (``cooperative``; Weber et al. 2022, eqs. 8 and 9).
    dynamics
        Several agents in a world: ``local`` importance weights of each agent's own action, or ``full`` ones of all
        actions together (eqs. 13 and 12 there).
    policies
        Several agents in a world: one network for all of them (``shared``), or each its ``own``.
    advantage
        Closed form of A(s, a) beside V, ``none``, ``quadratic`` or ``gaussian`` (appendix E).
    state_dependent_std
        Whether the standard deviation of a Gaussian policy depends on the state; in the paper all states share it.
    trunks
        Whether V and the policy are outputs of one network, whose hidden layers they ``shared`` (the paper), or of one
        each, ``separate``.
    gamma_first, gamma_steps
        Discount factor at first, and the environment steps in which it comes to ``gamma``: the horizon 1 / (1 - gamma)
        grows by the same factor in each. ``None`` (the paper) has ``gamma`` from the beginning.
    retrace_lambda
        Lambda of the value targets, in [0, 1]: with less than 1 (the paper) they believe V more than the rewards far in
        the future (Retrace(lambda), ``rl_agent/replay/targets.py``).
    """

    serves_worlds: ClassVar[bool] = True

    algorithm: Literal["vracer"] = "vracer"
    policy: Literal["normal", "clipped", "boltzmann"] = "normal"
    relation: Literal["individual", "cooperative"] = "individual"
    dynamics: Literal["local", "full"] = "local"
    policies: Literal["shared", "own"] = "shared"
    advantage: Literal["none", "quadratic", "gaussian"] = "none"
    state_dependent_std: bool = False
    trunks: Literal["shared", "separate"] = "shared"
    gamma_first: Share | None = None
    gamma_steps: Count | None = None
    retrace_lambda: Share = 1.0

    def _incompatibilities(self) -> Iterator[str]:
        if self.is_clipped and self.squash != "none":
            yield f"policy = clipped has its bounds by itself: squash must be none, not {self.squash}"
        if self.is_clipped and self.advantage != "none":
            yield (
                f"advantage = {self.advantage} is a form around a normal without bounds, so policy must be normal, not "
                "clipped"
            )
        if (self.gamma_first is None) != (self.gamma_steps is None):
            yield (
                f"gamma_first = {self.gamma_first} with gamma_steps = {self.gamma_steps}: the one says where gamma "
                "begins and the other how long it takes, so name both or neither"
            )
        elif self.gamma_first is not None and not self.gamma_first <= self.gamma < 1.0:
            yield (
                f"gamma_first = {self.gamma_first} must not be above gamma = {self.gamma}, which must be below 1 then: "
                "the horizon grows from the one to the other"
            )
        yield from super()._incompatibilities()

    def incompatibilities_with_actions(self, choices: int) -> Iterator[str]:
        """Say which settings do not go with the actions of a task."""
        if choices and self.advantage != "none":
            yield f"advantage = {self.advantage} is a form of continuous actions; with discrete ones use none"
        if choices and self.is_clipped:
            yield "policy = clipped is of continuous actions; with discrete ones use boltzmann or normal"
        if not choices and self.policy == "boltzmann":
            yield "policy = boltzmann is of discrete actions; with continuous ones use normal or clipped"

    @property
    def is_clipped(self) -> bool:
        """Whether the normal of a continuous policy is clipped to the range of the actions."""
        return self.policy == "clipped"

    @property
    def is_cooperative(self) -> bool:
        """Whether an agent's value counts the mean reward of its world."""
        return self.relation == "cooperative"

    @property
    def has_full_dynamics(self) -> bool:
        """Whether importance weights are those of the actions of all agents in a world."""
        return self.dynamics == "full"

    @property
    def trace_decay(self) -> float:
        """Lambda of Retrace(lambda) in the value targets of the memory."""
        return self.retrace_lambda

    def discount(self, step: int) -> float:
        """Discount factor after ``step`` environment steps."""
        if self.gamma_first is None or self.gamma_steps is None or step >= self.gamma_steps:
            return self.gamma
        share = step / self.gamma_steps
        return float(1.0 - (1.0 - self.gamma_first) ** (1.0 - share) * (1.0 - self.gamma) ** share)


class DDPGConfig(ActorCritic):
    """DDPG.

    Attributes
    ----------
    noise
        Exploration ``gaussian``, or ``ou`` (Ornstein-Uhlenbeck, theta 0.15), its default without ReF-ER.
    """

    policy_share: ClassVar[float] = 0.1
    is_stochastic: ClassVar[bool] = False

    algorithm: Literal["ddpg"] = "ddpg"
    batch_size: Count = 128
    critic_l2: Share = 1e-4
    sigma: PositiveStd = 0.2
    noise: Literal["gaussian", "ou"] = "gaussian"

    @classmethod
    def _usual(cls, named: dict[str, Any]) -> dict[str, Any]:
        # appendix A and section 5.1: without ReF-ER DDPG needs correlated noise and no annealing
        plain = {"noise": "ou", "annealing": 0.0} if named.get("replay") == "none" else {}
        return super()._usual(named) | plain

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        if self.noise == "ou" and self.replay != "none":
            yield (
                f"noise = ou is correlated in time, so the importance weights of replay = {self.replay} would be "
                "wrong; use noise = gaussian, or replay = none"
            )
        yield from _tanh_inside(self)


class NAFConfig(WithTarget):
    """NAF."""

    serves_choices: ClassVar[bool] = False
    is_stochastic: ClassVar[bool] = False

    algorithm: Literal["naf"] = "naf"
    sigma: PositiveStd = 0.2


class TwoCritics(ActorCritic):
    """What TD3 and SAC have in common: the defaults of the NERS paper, table B.1."""

    hidden: Hidden | None = (256, 256)
    activation: Activation = "relu"
    batch_size: Count = 128
    gamma: Share = 0.99
    learning_rate: Rate = 3e-4
    buffer_size: Steps = 1_000_000
    learning_starts: Count = 5_000
    tau: float = Field(default=5e-3, gt=0.0, le=1.0)
    replay: Replay = "none"
    annealing: NotNegative = 0.0

    @classmethod
    def _usual(cls, named: dict[str, Any]) -> dict[str, Any]:
        return super()._usual(named) | {"random_start": named.get("replay", "none") == "none"}


class TD3Config(TwoCritics):
    """TD3.

    Attributes
    ----------
    policy_delay, target_noise, target_noise_clip
        Gradient steps per step of the policy; standard deviation and bound of the noise on the target's action.
    """

    is_stochastic: ClassVar[bool] = False

    algorithm: Literal["td3"] = "td3"
    sigma: PositiveStd = 0.1
    policy_delay: Few = 2
    target_noise: float = Field(default=0.2, ge=0.0, le=10.0)
    target_noise_clip: float = Field(default=0.5, ge=0.0, le=10.0)

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        yield from _tanh_inside(self)


class SACConfig(TwoCritics):
    """SAC.

    Attributes
    ----------
    temperature, target_entropy
        The temperature at t = 0, in units of scaled rewards, and the entropy that it aims at; ``None`` takes minus the
        number of action components.
    """

    algorithm: Literal["sac"] = "sac"
    sigma: PositiveStd = 1.0
    squash: Squash = "tanh"
    temperature: float = Field(default=0.2, gt=0.0, le=1e3)
    target_entropy: float | None = None

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        if self.squash != "tanh":
            yield f"algorithm = sac draws from a squashed Gaussian: squash must be tanh, not {self.squash}"


def _tanh_inside(config: AgentConfig) -> Iterator[str]:
    if config.squash != "none":
        yield (
            f"algorithm = {config.algorithm} has its tanh inside the policy: squash must be none, not {config.squash}"
        )
