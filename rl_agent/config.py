"""The settings of a learner, typed and validated at start: a model per algorithm.

The defaults are the values of the papers (ReF-ER: Novati & Koumoutsakos 2019, "Remember and Forget for Experience
Replay", appendices A and B, and table B.1 of NERS for SAC and TD3) unless a field says otherwise; presets override
them and name what differs.

All of it stands in one file, long as it is: most of it says what a setting means, and a reader looks for that in one
place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

__all__ = [
    "ALGORITHMS",
    "DEFAULTS",
    "A3CConfig",
    "ACERConfig",
    "ActorCritic",
    "AgentConfig",
    "Algorithm",
    "AnyAgentConfig",
    "DDPGConfig",
    "DQNConfig",
    "HasTarget",
    "HasTrustRegion",
    "NAFConfig",
    "OnPolicyConfig",
    "PPOConfig",
    "RainbowConfig",
    "Remembering",
    "SACConfig",
    "StretchConfig",
    "TD3Config",
    "TISConfig",
    "TrustA3CConfig",
    "TrustTISConfig",
    "VRacerConfig",
    "WithPolicy",
    "WithTarget",
    "with_algorithm",
]

Algorithm = Literal[
    "vracer", "ddpg", "naf", "acer", "tis", "trust-tis", "td3", "sac", "a3c", "trust-a3c", "ppo", "dqn", "rainbow"
]
Activation = Literal["softsign", "relu", "tanh"]
Replay = Literal["refer", "refer-1", "refer-2", "none"]
Sampler = Literal["uniform", "rank", "proportional", "ero", "ners"]
Feature = Literal["state", "action", "reward", "next_state", "time", "td_error", "target"]
Squash = Literal["none", "tanh"]

Count = Annotated[int, Field(ge=1)]
Steps = Annotated[int, Field(ge=2)]
Few = Annotated[int, Field(ge=1, le=1000)]
Hidden = Annotated[tuple[Count, ...], Field(min_length=1)]
Layer = tuple[Count, Count, Count]
Deviation = Annotated[float, Field(gt=0.0, le=100.0)]
Positive = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Rate = Annotated[float, Field(gt=0.0, lt=1.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


ERO_SETTINGS = {"judged_episodes", "score_learning_rate", "score_steps"}
NERS_SETTINGS = ERO_SETTINGS | {"score_features", "score_context"}


class AgentConfig(BaseModel):
    """Settings of one learner; here those that every algorithm has.

    ``AgentConfig(algorithm="sac", ...)`` and ``AgentConfig.model_validate`` make a :class:`SACConfig`, as
    :class:`pathlib.Path` makes the path of its system.

    What is not named has the paper's value, until ``rl_agent.defaults.fit`` fits it to a run. ``model_fields_set`` is
    what was named. A written configuration has the settings of all algorithms, those of others at their defaults.

    Attributes
    ----------
    algorithm
        The learning rule; see ``rl_agent/algorithms``.
    defaults
        Where a run takes settings from that are not named: ``run`` fits them to its length and that of its episodes
        (``rl_agent/defaults.py``), ``paper`` leaves them as published.
    network
        ``mlp`` (softsign layers), ``lstm`` (recurrent layers, trained on windows) or ``conv`` (convolutions of
        pictures, which the memory holds as ``uint8``).
    hidden
        Units per hidden layer; ``None`` takes the paper's 128, 128 (mlp) or 32, 32 (lstm), or 512 (conv).
    activation
        Of the hidden layers of an mlp; those of a conv are ReLU.
    window
        Steps of history before the drawn step that an lstm is unrolled over (appendix D runs: 16); of a conv the frames
        that are stacked beneath the present one (3).
    picture
        Network ``conv``: channels, height and width that the numbers of an observation are, in this order.
    convolutions
        Network ``conv``: channels, side of the filters and stride of each layer (those of Mnih et al. 2015; Rainbow has
        its own).
    gamma
        Discount factor, in [0, 1].
    learning_rate
        Step size of Adam at t = 0 (eta of eq. 13); also the pace of beta, unless it has its own. With separate
        networks, that of the critics.
    batch
        Steps drawn for a gradient (B).
    memory
        Steps that the replay memory holds at most (N); whole episodes leave first in, first out.
    start
        Steps in the memory at which learning starts (N_start); scaling of states is frozen there.
    steps_per_update
        Environment steps per gradient step (F), held exactly; 0.5 means two gradient steps per step.
    replay
        What is remembered and forgotten: ``refer`` (rules 1 and 2), ``refer-1`` (only clips far-policy gradients),
        ``refer-2`` (only the KL penalty, importance weights clipped at 1000) or ``none`` (plain experience replay).
    sampler
        Who is drawn: ``uniform``, ``rank`` or ``proportional`` (prioritised by TD error, Schaul et al. 2016), ``ero``
        (from a learned subset, Zha et al. 2019) or ``ners`` (by learned scores, Oh et al. 2021). All but the first need
        ``replay`` ``none`` or ``refer-1``; ACER draws episodes and PPO takes every step, so they take none.
    priority_exponent
        How strongly priorities count; ``None`` takes 0.7 (rank), 0.6 (proportional) or 0.5 (ners).
    importance_exponent
        How far importance-sampling weights make up for the priorities, 0 to 1.
    importance_steps
        Environment steps in which ``importance_exponent`` rises to 1, in proportion; ``None`` leaves it as it is.
    judged_episodes
        Sampler ``ero`` or ``ners``: training episodes whose mean return is compared with that of as many before.
    score_features, score_context
        Sampler ``ners``: what its network sees of a step (eq. 2), and whether it sees the others drawn with it.
    score_learning_rate, score_steps
        Sampler ``ero`` or ``ners``: step size of Adam for its network, and steps that a comparison is learned from.
    c
        C of eq. 13: far-policy starts at an importance weight of c_max = 1 + C / (1 + A t).
    a
        A of eq. 13: pace of the annealing of c_max and of the learning rate, per environment step.
    d
        D of eq. 12: the tolerated fraction of far-policy steps in the memory.
    beta
        Weight of the loss against the KL penalty at t = 0 (eq. 10; 0.3 in Weber et al. 2022).
    beta_rate
        Pace of beta (eq. 12) at t = 0, annealed like the learning rate; ``None`` takes that (the paper).
    sigma
        Standard deviation of the policy at t = 0 (fixed for DDPG, NAF, TD3, ACER, TIS, A3C), in half ranges of the
        action (before the tanh for SAC; paper: variance 0.2).
    sigma_min
        Floor of a learned, shared standard deviation (V-RACER, PPO), added to the softplus (the paper has none). On a
        short run the policy gradient can shrink sigma before the mean has found its way, and exploration with it.
    center_advantages
        V-RACER: subtract from Q_ret - V its near-policy mean over the batch, weighted by rho. A constant has no
        expected policy gradient, but while V lags behind returns that rise, the mean pulls the policy to every stored
        action.
    acting
        What an lstm knows while acting: ``carried``, its state since the episode began, or ``window``, the same last
        steps that it is trained on, so that importance weights of late steps are exact.
    squash
        ``none``: actions are centre + a (high - low) / 2, and the environment clips; ``tanh``: tanh(a) takes
        the place of a.
    random_start
        Whether actions are uniform over the task's until learning starts; needs ``replay`` ``none``, and is then on
        by default for TD3 and SAC.
    device
        Where gradients are computed: ``cpu``, or ``cuda`` (torch, captured as a CUDA graph). The memory and the
        acting networks stay on the CPU.
    threads
        Threads of the linear algebra in the process of the learner.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    serves_choices: ClassVar[bool] = True
    """Whether actions may be discrete."""
    serves_boxes: ClassVar[bool] = True
    """Whether actions may be continuous."""
    conv_hidden: ClassVar[tuple[int, ...]] = (512,)
    """Units of the hidden layers above convolutions, where the settings do not say."""

    algorithm: Algorithm = "vracer"
    defaults: Literal["run", "paper"] = "run"
    network: Literal["mlp", "lstm", "conv"] = "mlp"
    hidden: Hidden | None = None
    activation: Activation = "softsign"
    window: int = Field(default=16, ge=0, le=1000)
    picture: Layer | None = None
    convolutions: Annotated[tuple[Layer, ...], Field(min_length=1)] = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
    gamma: Share = 0.995
    learning_rate: Rate = 1e-4
    batch: Count = 256
    memory: Steps = 2**18
    start: Count = 2**17
    steps_per_update: float = Field(default=1.0, ge=1e-3, le=1e6)
    replay: Replay = "refer"
    sampler: Sampler = "uniform"
    priority_exponent: float | None = Field(default=None, ge=0.0, le=2.0)
    importance_exponent: Share = 0.4
    importance_steps: Count | None = None
    judged_episodes: Count = 1
    score_features: Annotated[tuple[Feature, ...], Field(min_length=1)] = (
        "state",
        "action",
        "reward",
        "next_state",
        "time",
        "td_error",
        "target",
    )
    score_context: bool = True
    score_learning_rate: Rate = 1e-4
    score_steps: Count = 128
    c: Positive = 4.0
    a: NotNegative = 5e-7
    d: Share = 0.1
    beta: Share = 0.3
    beta_rate: Rate | None = None
    sigma: Deviation = math.sqrt(0.2)
    sigma_min: float = Field(default=0.0, ge=0.0, le=100.0)
    center_advantages: bool = False
    acting: Literal["carried", "window"] = "carried"
    squash: Squash = "none"
    random_start: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int = Field(default=1, ge=1, le=256)

    def __new__(cls, **settings: Any) -> Self:
        """Make the settings of the algorithm that is named."""
        return super().__new__(cls) if cls is not AgentConfig else cls.model_validate(settings)

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Any:
        """Validate settings, for :class:`AgentConfig` itself as those of the algorithm that they name."""
        return (
            super().model_validate(obj, **options)
            if cls is not AgentConfig
            else _ANY.validate_python(with_algorithm(obj))
        )

    @model_validator(mode="wrap")
    @classmethod
    def _take_the_defaults_of_the_algorithm(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, dict):
            return handler(data)
        own = {key: value for key, value in data.items() if not cls._is_of_others(key, value)}
        config = handler(cls._usual(own) | own)
        object.__setattr__(config, "__pydantic_fields_set__", set(own))  # what was named, without the defaults
        return config

    @classmethod
    def _is_of_others(cls, key: str, value: Any) -> bool:
        """Tell whether this is a setting of other algorithms at its default; refuse another value of it."""
        if key in cls.model_fields or key not in DEFAULTS:
            return False
        if value != DEFAULTS[key]:
            owners = " and ".join(name for name, kind in ALGORITHMS.items() if key in kind.model_fields)
            algorithm = cls.model_fields["algorithm"].default
            raise ValueError(f"{key} = {value} is a setting of {owners}, which algorithm = {algorithm} does not read")
        return True

    @model_serializer(mode="wrap")
    def _with_those_of_others(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        return handler(self) | {key: value for key, value in DEFAULTS.items() if key not in fields}

    @classmethod
    def _usual(cls, named: dict[str, Any]) -> dict[str, Any]:
        """Return the defaults that depend on what was named."""
        usual: dict[str, Any] = {}
        if named.get("network") == "lstm":
            usual |= {key: AgentConfig.model_fields[key].default for key in ("hidden", "activation")}
        if named.get("network") == "conv":
            usual |= {"window": 3, "activation": "relu", "hidden": cls.conv_hidden}
        if named.get("defaults", "run") == "run":
            # one of the two named alone: the other one follows until it is fitted to the run
            start, memory = (named.get(key, cls.model_fields[key].default) for key in ("start", "memory"))
            if isinstance(start, int) and isinstance(memory, int) and start > memory:
                usual |= {"memory": start} if "start" in named else {"start": memory}
        return usual

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        for misfit in self._misfits():
            raise ValueError(misfit)
        return self

    def _misfits(self) -> Iterator[str]:
        """Say which settings do not go together, and why, a sentence each."""
        if self.sampler != "uniform" and self.replay in ("refer", "refer-2"):
            yield (
                f"sampler = {self.sampler} leaves most importance weights in the memory unrefreshed, and with them the "
                f"far-policy fraction that steers beta under replay = {self.replay}; use replay = none or refer-1"
            )
        read = {"ners": NERS_SETTINGS, "ero": ERO_SETTINGS}.get(self.sampler, set())
        for key in sorted(NERS_SETTINGS - read):
            if getattr(self, key) != AgentConfig.model_fields[key].default:
                owners = "ero or ners" if key in ERO_SETTINGS else "ners"
                yield f"{key} is a setting of sampler = {owners}, which sampler = {self.sampler} does not read"
        if (self.network == "conv") != (self.picture is not None):
            yield (
                f"network = {self.network} with picture = {self.picture}: network = conv, and no other, needs "
                "picture = [channels, height, width]"
            )
        if self.network == "conv" and self.sampler == "ners" and {"state", "next_state"} & set(self.score_features):
            yield (
                "sampler = ners scores no pictures yet; with network = conv leave state and next_state out of "
                "score_features, or use another sampler"
            )
        if self.random_start and self.replay != "none":
            yield (
                f"random_start = True stores actions that the policy did not draw, which replay = {self.replay} cannot "
                "weigh; use random_start = false, or replay = none"
            )
        if self.sigma <= self.sigma_min:
            yield f"sigma = {self.sigma} must be above its floor, sigma_min = {self.sigma_min}"

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        """Units per hidden layer, the network's default where ``hidden`` is not given."""
        if self.hidden is not None:
            return self.hidden
        if self.network == "conv":
            return self.conv_hidden
        return (128, 128) if self.network == "mlp" else (32, 32)

    @property
    def policy_rate(self) -> float:
        """Learning rate of a policy's own network at t = 0."""
        return self.learning_rate

    @property
    def is_clipped(self) -> bool:
        """Whether the normal of a continuous policy is clipped to the range of the actions."""
        return False

    @property
    def is_cooperative(self) -> bool:
        """Whether an agent's value counts the mean reward of its world."""
        return False

    @property
    def has_full_dynamics(self) -> bool:
        """Whether importance weights are those of the actions of all agents in a world."""
        return False

    @property
    def draws(self) -> int:
        """How many the sampler draws for a gradient."""
        return self.batch

    def importance_correction(self, step: int) -> float:
        """How far weights make up for priorities after ``step`` environment steps (beta of Schaul et al. 2016)."""
        if self.importance_steps is None:
            return self.importance_exponent
        share = min(1.0, step / self.importance_steps)
        return (1.0 - share) * self.importance_exponent + share


class Remembering(AgentConfig):
    """What learns from a replay memory all the time.

    Attributes
    ----------
    piece
        Steps after which a running episode goes to the memory as far as it has come, bootstrapped there like a
        truncated one; ``None`` (the paper) keeps it back until it ends. An lstm's windows do not cross pieces.
    """

    piece: Steps | None = None

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.start > self.memory:
            yield f"start = {self.start} must not be above memory = {self.memory}: learning would never start"


class HasTarget(AgentConfig):
    """What has a target network.

    Attributes
    ----------
    target_rate
        Share of the weights that enters the target network (with a trust region: the average policy) in a gradient
        step.
    """

    target_rate: float = Field(default=0.01, gt=0.0, le=1.0)


class WithTarget(HasTarget, Remembering):
    """What has a target network, and learns from a replay memory."""


class WithPolicy(AgentConfig):
    """What has a network for the policy alone.

    Attributes
    ----------
    policy_learning_rate
        Step size of that network; ``None`` takes ``policy_share`` of ``learning_rate``.
    """

    policy_share: ClassVar[float] = 1.0
    """Learning rate of the policy over that of the critics (ReF-ER paper, appendix A)."""

    policy_learning_rate: Rate | None = None

    @property
    def policy_rate(self) -> float:
        """Learning rate of the policy's own network at t = 0."""
        own = self.policy_learning_rate
        return self.policy_share * self.learning_rate if own is None else own


class ActorCritic(WithTarget, WithPolicy):
    """What has critics of actions.

    Attributes
    ----------
    critic_l2
        L2 decay of the critic's weights.
    """

    serves_choices: ClassVar[bool] = False

    critic_l2: Share = 0.0

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.network == "conv":
            yield (
                f"algorithm = {self.algorithm} has critics of actions, and network = conv reads pictures alone; "
                "use mlp or lstm"
            )


class VRacerConfig(Remembering):
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
    deviation
        Whether the standard deviation of a Gaussian policy is ``shared`` by all states (the paper) or of the ``state``.
    decay
        Lambda of the value targets, in [0, 1]: with less than 1 (the paper) they believe V more than the rewards far in
        the future (Retrace(lambda), ``rl_agent/returns.py``).
    """

    algorithm: Literal["vracer"] = "vracer"
    policy: Literal["normal", "clipped", "boltzmann"] = "normal"
    relation: Literal["individual", "cooperative"] = "individual"
    dynamics: Literal["local", "full"] = "local"
    policies: Literal["shared", "own"] = "shared"
    advantage: Literal["none", "quadratic", "gaussian"] = "none"
    deviation: Literal["shared", "state"] = "shared"
    decay: Share = 1.0

    def _misfits(self) -> Iterator[str]:
        if self.is_clipped and self.squash != "none":
            yield f"policy = clipped has its bounds by itself: squash must be none, not {self.squash}"
        if self.is_clipped and self.advantage != "none":
            yield (
                f"advantage = {self.advantage} is a form around a normal without bounds, so policy must be normal, not "
                "clipped"
            )
        yield from super()._misfits()

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


class DDPGConfig(ActorCritic):
    """DDPG.

    Attributes
    ----------
    noise
        Exploration ``gaussian``, or ``ou`` (Ornstein-Uhlenbeck, theta 0.15), its default without ReF-ER.
    """

    policy_share: ClassVar[float] = 0.1

    algorithm: Literal["ddpg"] = "ddpg"
    batch: Count = 128
    critic_l2: Share = 1e-4
    sigma: Deviation = 0.2
    noise: Literal["gaussian", "ou"] = "gaussian"

    @classmethod
    def _usual(cls, named: dict[str, Any]) -> dict[str, Any]:
        # appendix A and section 5.1: without ReF-ER DDPG needs correlated noise and no annealing
        plain = {"noise": "ou", "a": 0.0} if named.get("replay") == "none" else {}
        return super()._usual(named) | plain

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.noise == "ou" and self.replay != "none":
            yield (
                f"noise = ou is correlated in time, so the importance weights of replay = {self.replay} would be "
                "wrong; use noise = gaussian, or replay = none"
            )
        yield from _tanh_inside(self)


class NAFConfig(WithTarget):
    """NAF."""

    serves_choices: ClassVar[bool] = False

    algorithm: Literal["naf"] = "naf"
    sigma: Deviation = 0.2


class StretchConfig(Remembering, WithPolicy):
    """What learns from stretches of episodes.

    Attributes
    ----------
    truncation
        c of the importance weights.
    episodes, segment
        Episodes drawn for a gradient (in place of ``batch``), and most steps taken of each, one after the other (the k
        of the ACER paper).
    """

    memory: Steps = 100_000
    start: Count = 2**15
    replay: Replay = "none"
    truncation: Positive = 5.0
    episodes: int = Field(default=24, ge=1, le=100_000)
    segment: int = Field(default=50, ge=1, le=100_000)

    def _misfits(self) -> Iterator[str]:
        if self.sampler != "uniform":
            yield (
                f"algorithm = {self.algorithm} draws stretches of whole episodes, where the priorities of single steps "
                f"(sampler = {self.sampler}) say nothing; use sampler = uniform"
            )
        if self.replay != "none":
            yield (
                f"algorithm = {self.algorithm} bounds its updates by truncated weights{self._and_so}, so replay must "
                f"be none, not {self.replay}"
            )
        yield from super()._misfits()

    @property
    def _and_so(self) -> str:
        """What bounds the updates beside the weights."""
        return " and a trust region of its own" if isinstance(self, HasTrustRegion) else ""

    @property
    def draws(self) -> int:
        """How many stretches of episodes the sampler draws for a gradient."""
        return self.episodes


class HasTrustRegion(HasTarget):
    """What keeps the policy in a trust region around its average (Wang et al. 2017, section 3.3).

    Attributes
    ----------
    trust_region
        delta of the trust region.
    """

    target_rate: float = Field(default=5e-3, gt=0.0, le=1.0)
    trust_region: Positive = 1.0


class ACERConfig(StretchConfig, HasTrustRegion):
    """ACER.

    Attributes
    ----------
    dueling_samples
        Draws that estimate the mean advantage.
    replay_ratio
        Discrete actions: mean number of replay calls after each on-policy call.
    """

    policy_share: ClassVar[float] = 0.1

    algorithm: Literal["acer"] = "acer"
    target_rate: float = Field(default=1e-3, gt=0.0, le=1.0)
    dueling_samples: Few = 5
    replay_ratio: float = Field(default=4.0, ge=0.0, le=1000.0)


class TISConfig(StretchConfig):
    """Truncated importance sampling."""

    algorithm: Literal["tis"] = "tis"
    sigma: Deviation = 0.3


class TrustTISConfig(TISConfig, HasTrustRegion):
    """Truncated importance sampling in a trust region."""

    algorithm: Literal["trust-tis"] = "trust-tis"  # type: ignore[assignment]


class TwoCritics(ActorCritic):
    """What TD3 and SAC have in common: the defaults of the NERS paper, table B.1."""

    hidden: Hidden | None = (256, 256)
    activation: Activation = "relu"
    batch: Count = 128
    gamma: Share = 0.99
    learning_rate: Rate = 3e-4
    memory: Steps = 1_000_000
    start: Count = 5_000
    target_rate: float = Field(default=5e-3, gt=0.0, le=1.0)
    replay: Replay = "none"
    a: NotNegative = 0.0

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

    algorithm: Literal["td3"] = "td3"
    sigma: Deviation = 0.1
    policy_delay: Few = 2
    target_noise: float = Field(default=0.2, ge=0.0, le=10.0)
    target_noise_clip: float = Field(default=0.5, ge=0.0, le=10.0)

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
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
    sigma: Deviation = 1.0
    squash: Squash = "tanh"
    temperature: float = Field(default=0.2, gt=0.0, le=1e3)
    target_entropy: float | None = None

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        if self.squash != "tanh":
            yield f"algorithm = sac draws from a squashed Gaussian: squash must be tanh, not {self.squash}"


class OnPolicyConfig(WithPolicy):
    """What learns from a horizon of steps and then forgets them.

    Attributes
    ----------
    horizon
        Steps collected for an iteration, over all agents (in place of ``memory`` and ``start``).
    """

    standardises: ClassVar[bool] = False
    """Whether advantages are standardised over the horizon."""

    replay: Replay = "none"
    horizon: Steps = 480

    @property
    def passes(self) -> int:
        """Passes over the steps of a horizon."""
        return 1

    @property
    def return_lambda(self) -> float:
        """Lambda of the advantage estimate; 1 takes the returns up to the cut."""
        return 1.0

    @property
    def steps_per_gradient(self) -> float:
        """Environment steps per gradient step."""
        return self.draws / self.passes

    def _misfits(self) -> Iterator[str]:
        name = self.algorithm
        if self.replay != "none" or self.sampler != "uniform":
            yield (
                f"algorithm = {name} is on-policy: it uses every step of the last horizon and then forgets it, so "
                f"replay must be none and sampler uniform, not {self.replay} and {self.sampler}"
            )
        if self.network == "lstm":
            yield (
                f"algorithm = {name} cuts episodes at its horizon, which the windows of network = lstm cannot cross; "
                "use mlp"
            )
        yield from super()._misfits()


class A3CConfig(OnPolicyConfig):
    """Synchronous A3C, which learns from its whole horizon at once, in place of ``batch``."""

    algorithm: Literal["a3c"] = "a3c"
    sigma: Deviation = 0.3

    @property
    def draws(self) -> int:
        """How many steps a gradient takes."""
        return self.horizon


class TrustA3CConfig(A3CConfig, HasTrustRegion):
    """Synchronous A3C in a trust region."""

    algorithm: Literal["trust-a3c"] = "trust-a3c"  # type: ignore[assignment]


class PPOConfig(OnPolicyConfig):
    """PPO, which takes ``batch`` steps a gradient, in place of ``steps_per_update``.

    Attributes
    ----------
    epochs, clip, gae_lambda
        Passes over the steps of a horizon, bound of rho - 1, lambda of the advantage estimate.
    """

    policy_share: ClassVar[float] = 1 / 3
    standardises: ClassVar[bool] = True

    algorithm: Literal["ppo"] = "ppo"
    hidden: Hidden | None = (64, 64)
    activation: Activation = "tanh"
    batch: Count = 64
    learning_rate: Rate = 3e-4
    horizon: Steps = 2048
    epochs: Few = 10
    clip: Rate = 0.2
    gae_lambda: Share = 0.97

    @property
    def passes(self) -> int:
        """Passes over the steps of a horizon."""
        return self.epochs

    @property
    def return_lambda(self) -> float:
        """Lambda of the advantage estimate."""
        return self.gae_lambda

    def _misfits(self) -> Iterator[str]:
        if self.horizon < self.batch:
            yield f"horizon = {self.horizon} must not be below batch = {self.batch}"
        yield from super()._misfits()


class DQNConfig(WithTarget):
    """DQN.

    Attributes
    ----------
    double, dueling, noisy
        Whether the next action is chosen by the network that learns, whether V and A have streams of their own, and
        whether noise on the weights takes the place of random actions.
    noise_sigma
        That noise at first, over the root of the inputs of a layer.
    steps_ahead
        Rewards in a target before the network's own estimate (n).
    atoms, value_limit
        Atoms of the distribution of returns, evenly from minus to plus the limit, in units of scaled rewards; one atom
        is the mean alone.
    epsilon, epsilon_steps
        Chance of a random action, which falls from 1 to this in so many environment steps after learning has begun.
    target_every
        Gradient steps between moves of the target network, by ``target_rate`` each.
    adam_epsilon, max_gradient_norm
        Of Adam, and the length that longer gradients are cut to; ``None`` cuts none.
    clip_rewards
        Whether rewards are cut at 1 and -1, and not scaled.
    """

    serves_boxes: ClassVar[bool] = False

    algorithm: Literal["dqn"] = "dqn"
    activation: Activation = "relu"
    gamma: Share = 0.99
    learning_rate: Rate = 2.5e-4
    batch: Count = 32
    memory: Steps = 1_000_000
    start: Count = 50_000
    steps_per_update: float = Field(default=4.0, ge=1e-3, le=1e6)
    replay: Replay = "none"
    a: NotNegative = 0.0
    random_start: bool = True
    target_rate: float = Field(default=1.0, gt=0.0, le=1.0)
    target_every: Count = 10_000
    double: bool = False
    dueling: bool = False
    noisy: bool = False
    noise_sigma: Positive = 0.5
    steps_ahead: Few = 1
    atoms: Few = 1
    value_limit: Positive = 10.0
    epsilon: Share = 0.1
    epsilon_steps: Count = 1_000_000
    adam_epsilon: Positive = 1e-8
    max_gradient_norm: Positive | None = None
    clip_rewards: bool = True

    def _misfits(self) -> Iterator[str]:
        if self.replay != "none":
            yield (
                f"algorithm = {self.algorithm} has no policy whose importance weights could be remembered or "
                f"forgotten: replay must be none, not {self.replay}"
            )
        if self.network == "lstm":
            yield f"algorithm = {self.algorithm} reads single states or stacked pictures; use network = mlp or conv"
        yield from super()._misfits()


class RainbowConfig(DQNConfig):
    """Rainbow, data-efficient."""

    conv_hidden: ClassVar[tuple[int, ...]] = (256,)

    algorithm: Literal["rainbow"] = "rainbow"  # type: ignore[assignment]
    learning_rate: Rate = 1e-4
    start: Count = 1600
    steps_per_update: float = Field(default=1.0, ge=1e-3, le=1e6)
    target_every: Count = 2000
    sampler: Sampler = "proportional"
    priority_exponent: float | None = Field(default=0.5, ge=0.0, le=2.0)
    convolutions: Annotated[tuple[Layer, ...], Field(min_length=1)] = ((32, 5, 5), (64, 5, 5))
    double: bool = True
    dueling: bool = True
    noisy: bool = True
    noise_sigma: Positive = 0.1
    steps_ahead: Few = 20
    atoms: Few = 51
    epsilon: Share = 0.0
    adam_epsilon: Positive = 1.5e-4
    max_gradient_norm: Positive | None = 10.0


def _tanh_inside(config: AgentConfig) -> Iterator[str]:
    if config.squash != "none":
        yield (
            f"algorithm = {config.algorithm} has its tanh inside the policy: squash must be none, not {config.squash}"
        )


AnyAgentConfig = Annotated[
    VRacerConfig
    | DDPGConfig
    | NAFConfig
    | ACERConfig
    | TISConfig
    | TrustTISConfig
    | TD3Config
    | SACConfig
    | A3CConfig
    | TrustA3CConfig
    | PPOConfig
    | DQNConfig
    | RainbowConfig,
    Field(discriminator="algorithm"),
]
"""The settings of whichever algorithm they name."""

_ANY: TypeAdapter[AgentConfig] = TypeAdapter(AnyAgentConfig)

ALGORITHMS: dict[str, type[AgentConfig]] = {
    kind.model_fields["algorithm"].default: kind
    for kind in (
        VRacerConfig,
        DDPGConfig,
        NAFConfig,
        TISConfig,
        TrustTISConfig,
        ACERConfig,
        TD3Config,
        SACConfig,
        A3CConfig,
        TrustA3CConfig,
        PPOConfig,
        RainbowConfig,
        DQNConfig,  # after its heir: the defaults of the settings that both read are these
    )
}
"""Their settings by name."""

_KINDS: tuple[type[AgentConfig], ...] = (ActorCritic, WithPolicy, HasTarget, Remembering, AgentConfig)
DEFAULTS: dict[str, Any] = {
    key: field.default for kind in (*ALGORITHMS.values(), *_KINDS) for key, field in kind.model_fields.items()
}
"""The default of every setting, where an algorithm has no other."""


def with_algorithm(settings: Any) -> Any:
    """Return settings with the name of their algorithm, which they may be, or leave out."""
    if isinstance(settings, str):
        return {"algorithm": settings}
    return {"algorithm": DEFAULTS["algorithm"]} | settings if isinstance(settings, dict) else settings
