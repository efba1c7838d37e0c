"""Settings of every learner, and the rejection of settings that an algorithm does not use."""

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
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from rl_agent.config import registry
from rl_agent.config.old_names import current_settings
from rl_agent.config.run_length import RunLength, rounded
from rl_agent.config.unread import unread_settings

Activation = Literal["softsign", "relu", "tanh"]
Replay = Literal["refer", "refer-1", "refer-2", "none"]
Sampler = Literal["uniform", "rank", "proportional", "ero", "ners"]
Squash = Literal["none", "tanh"]

Count = Annotated[int, Field(ge=1)]
Steps = Annotated[int, Field(ge=2)]
Few = Annotated[int, Field(ge=1, le=1000)]
Hidden = Annotated[tuple[Count, ...], Field(min_length=1)]
Layer = tuple[Count, Count, Count]
PositiveStd = Annotated[float, Field(gt=0.0, le=100.0)]
Positive = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Rate = Annotated[float, Field(gt=0.0, lt=1.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


SCORE_SETTINGS = ("performance_window", "score_learning_rate")
"""Settings of the samplers that score steps with a network."""

IN_A_CALL = "in a call"
"""Context of the validation of settings that a program gives now, of which none may be unread."""


class AgentConfig(BaseModel):
    """Settings of a learner that all algorithms share.

    ``AgentConfig(algorithm="sac", ...)`` and ``AgentConfig.model_validate`` return a :class:`SACConfig`, as
    :class:`pathlib.Path` returns the path class of the operating system.

    Settings that are not given have the paper's value until ``rl_agent.config.defaults.fit`` fits them to a run;
    ``model_fields_set`` holds the names of the given ones. A written configuration contains the settings of all
    algorithms, those of the other algorithms with their defaults.

    Attributes
    ----------
    algorithm
        Name of the learning algorithm; see ``rl_agent/algorithms``.
    defaults
        Values of settings that are not given: ``run`` fits them to the length of the run and of its episodes
        (``rl_agent/config/defaults.py``), ``paper`` uses the published values.
    network
        ``mlp`` (fully connected layers), ``lstm`` (recurrent layers, trained on windows) or ``conv`` (convolutions of
        images, which the memory stores as ``uint8``).
    hidden
        Units per hidden layer; ``None`` uses the paper's 128, 128 (mlp) or 32, 32 (lstm), or 512 (conv; 256 for
        Rainbow).
    activation
        Activation of the hidden layers of an mlp; those of a conv, and of DQN and Rainbow, are ReLU.
    window
        ``lstm``: steps before the sampled step over which the network is unrolled (16 in appendix D); ``conv``: earlier
        frames stacked with the current one (3).
    burn_in
        ``lstm``: steps before those of ``window`` that only warm up the state: the gradient does not reach them.
    frames
        Network ``mlp``: number of stacked observations, including the current one.
    previous_action
        Whether the previous action is added to each observation; it is zero before the first step. Continuous actions
        are in half ranges and clipped, discrete ones one-hot.
    image_shape
        Network ``conv``: channels, height and width of a flattened observation, in this order.
    convolutions
        Network ``conv``: channels, filter size and stride of each layer (those of Mnih et al. 2015; Rainbow has its
        own).
    gamma
        Discount factor, in [0, 1].
    learning_rate
        Step size of Adam at t = 0 (eta of eq. 13); also the rate at which beta changes. With separate networks, the
        step size of the critics.
    batch_size
        Steps sampled per gradient (B).
    buffer_size
        Capacity of the replay memory in steps (N); whole episodes are evicted first in, first out.
    learning_starts
        Stored steps, evicted or not, after which learning starts (N_start); the scaling of states is frozen then.
    env_steps_per_gradient_step
        Environment steps per gradient step (F), kept exactly; 0.5 means two gradient steps per step.
    replay
        Remember-and-Forget rules: ``refer`` (rules 1 and 2), ``refer-1`` (only skips far-policy gradients), ``refer-2``
        (only the KL penalty, importance weights clipped at 1000) or ``none`` (plain experience replay).
    sampler
        How steps are sampled: ``uniform``, ``rank`` or ``proportional`` (prioritised by TD error, Schaul et al. 2016),
        ``ero`` (from a learned subset, Zha et al. 2019) or ``ners`` (by learned scores, Oh et al. 2021). All except
        ``uniform`` need ``replay`` ``none`` or ``refer-1``, and cannot be used with algorithms that sample segments or
        are on-policy.
    priority_exponent
        Exponent of the priorities; ``None`` uses 0.7 (rank), 0.6 (proportional) or 0.5 (ners).
    importance_exponent
        Exponent of the importance-sampling weights that correct for the priorities, 0 to 1.
    importance_steps
        Environment steps over which ``importance_exponent`` rises linearly to 1; ``None`` keeps it constant.
    performance_window
        Sampler ``ero`` or ``ners``: number of training episodes whose mean return is compared with that of as many
        before.
    score_learning_rate
        Sampler ``ero`` or ``ners``: step size of Adam for the sampler's network.
    c_max_scale
        C of eq. 13: steps are far-policy beyond an importance weight of c_max = 1 + C / (1 + A t).
    annealing
        A of eq. 13: rate at which c_max and the learning rate are annealed, per environment step.
    far_policy_target
        D of eq. 12: target fraction of far-policy steps in the memory, which controls beta.
    beta
        Weight of the loss relative to the KL penalty at t = 0 (eq. 10; 0.3 in Weber et al. 2022).
    sigma
        Standard deviation of the policy at t = 0 (fixed for DDPG, NAF, TD3, ACER, TIS, A3C), in half ranges of the
        action (before the tanh for SAC; paper: variance 0.2).
    sigma_min
        Lower bound of a learned, shared standard deviation (V-RACER, PPO), added to the softplus (none in the paper).
        In a short run the policy gradient can otherwise reduce sigma, and thus exploration, before the mean has
        improved.
    center_advantages
        V-RACER: subtract from Q_ret - V its near-policy mean over the batch, weighted by rho. A constant has no
        expected policy gradient, but while V lags behind rising returns, the mean pulls the policy towards every stored
        action.
    acting
        Input of an LSTM while acting: ``carried``, the state carried since the episode began, or ``window``, the same
        last steps on which it is trained, so that importance weights of late steps are exact.
    squash
        ``none``: actions are centre + a (high - low) / 2, and the environment clips; ``tanh``: tanh(a) instead of a.
    random_start
        DDPG, NAF, TD3, SAC, DQN and Rainbow with ``replay`` ``none``, which use no importance weights: whether actions
        are uniform over the action space until learning starts (the default of TD3, SAC, DQN and Rainbow).
    device
        Where gradients are computed: ``cpu``, or ``cuda`` (torch, captured as a CUDA graph). The memory and the
        acting networks stay on the CPU.
    threads
        Linear algebra threads of the learner's process.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    unread: ClassVar[tuple[str, ...]] = ()
    """Shared settings that the algorithm does not read; see ``rl_agent/config/unread.py`` for others."""
    always_weighs: ClassVar[bool] = False
    """Whether importance weights (or ratios) are used without Remember-and-Forget, too."""
    serves_choices: ClassVar[bool] = True
    """Whether the algorithm supports discrete actions."""
    serves_boxes: ClassVar[bool] = True
    """Whether the algorithm supports continuous actions."""
    serves_multi_agent: ClassVar[bool] = False
    """Whether the algorithm supports several agents per environment."""
    is_stochastic: ClassVar[bool] = True
    """Whether actions are sampled from the learned policy; otherwise they are its mean action plus noise."""
    title: ClassVar[str] = ""
    """Name of the algorithm in tables and plots; ``algorithm`` if empty."""
    title_replay: ClassVar[Replay] = "none"
    """The ``replay`` implied by the title; any other is appended to it."""
    colour: ClassVar[str] = ""
    """Colour of the algorithm's curves in plots; if empty, one of the colours of variants."""
    fits_learning_rate: ClassVar[bool] = True
    """Whether the learning rate and its annealing are fitted to the run length; otherwise they are as published."""
    learning_rate_factor: ClassVar[float] = 1.0
    """Ratio of the fitted learning rate to ``RunLength.learning_rate``."""
    conv_hidden: ClassVar[tuple[int, ...]] = (512,)
    """Default units of the hidden layers after the convolutions."""

    algorithm: str = registry.DEFAULT_ALGORITHM
    defaults: Literal["run", "paper"] = "run"
    network: Literal["mlp", "lstm", "conv"] = "mlp"
    hidden: Hidden | None = None
    activation: Activation = "softsign"
    window: int = Field(default=16, ge=0, le=1000)
    burn_in: int = Field(default=0, ge=0, le=1000)
    frames: int = Field(default=1, ge=1, le=100)
    previous_action: bool = False
    image_shape: Layer | None = None
    convolutions: Annotated[tuple[Layer, ...], Field(min_length=1)] = (
        (32, 8, 4),
        (64, 4, 2),
        (64, 3, 1),
    )
    gamma: Share = 0.995
    learning_rate: Rate = 1e-4
    batch_size: Count = 256
    buffer_size: Steps = 2**18
    learning_starts: Count = 2**17
    env_steps_per_gradient_step: float = Field(default=1.0, ge=1e-3, le=1e6)
    replay: Replay = "refer"
    sampler: Sampler = "uniform"
    priority_exponent: float | None = Field(default=None, ge=0.0, le=2.0)
    importance_exponent: Share = 0.4
    importance_steps: Count | None = None
    performance_window: Count = 1
    score_learning_rate: Rate = 1e-4
    c_max_scale: Positive = 4.0
    annealing: NotNegative = 5e-7
    far_policy_target: Share = 0.1
    beta: Share = 0.3
    sigma: PositiveStd = math.sqrt(0.2)
    sigma_min: float = Field(default=0.0, ge=0.0, le=100.0)
    center_advantages: bool = False
    acting: Literal["carried", "window"] = "carried"
    squash: Squash = "none"
    random_start: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int = Field(default=1, ge=1, le=256)

    def __new__(cls, **settings: Any) -> Self:
        """Create the settings of the algorithm ``algorithm``; refuse given ones that are not read."""
        if not settings and cls is not AgentConfig:  # as pydantic creates objects
            return super().__new__(cls)
        config: Self = cls.model_validate(settings, context=IN_A_CALL)
        return config

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Any:
        """Validate settings; on :class:`AgentConfig` itself, as those of the algorithm that they name."""
        if cls is not AgentConfig:
            return super().model_validate(obj, **options)
        return registry.validate(obj, **options)

    @model_validator(mode="wrap")
    @classmethod
    def _take_the_defaults_of_the_algorithm(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        if not isinstance(data, dict):
            return handler(data)
        named = current_settings(data)
        own = {key: value for key, value in named.items() if not cls._is_of_others(key, value)}
        config = handler(cls._usual(own) | own)
        # only the given settings, without the defaults
        object.__setattr__(config, "__pydantic_fields_set__", set(own))
        for _, problem in unread_settings(config) if info.context == IN_A_CALL else ():
            raise ValueError(problem)
        return config

    @classmethod
    def _is_of_others(cls, key: str, value: Any) -> bool:
        """Return whether this is another algorithm's setting at its default; raise if it has any other value."""
        default = registry.default_settings()
        if key in cls.model_fields or key not in default:
            return False
        if (tuple(value) if isinstance(value, list) else value) != default[key]:  # JSON has lists
            owners = " and ".join(
                name for name, kind in registry.algorithms().items() if key in kind.model_fields
            )
            algorithm = cls.model_fields["algorithm"].default
            raise ValueError(
                f"{key} = {value} is a setting of {owners}, which algorithm = {algorithm} does not read"
            )
        return True

    @model_serializer(mode="wrap")
    def _with_those_of_others(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields, written = type(self).model_fields, handler(self)
        if "algorithm" in written:
            written["algorithm"] = self.written_name
        others = registry.default_settings().items()
        return written | {key: value for key, value in others if key not in fields}

    @classmethod
    def _usual(cls, named: dict[str, Any]) -> dict[str, Any]:
        """Return the defaults that depend on the given settings."""
        usual: dict[str, Any] = {}
        if named.get("network") == "lstm":
            usual |= {
                key: AgentConfig.model_fields[key].default for key in ("hidden", "activation")
            }
        if named.get("network") == "conv":
            usual |= {"window": 3, "activation": "relu", "hidden": cls.conv_hidden}
        if named.get("defaults", "run") == "run":
            # if only one of the two is given, the other follows it until it is fitted to the run
            starts, size = (
                named.get(key, cls.model_fields[key].default)
                for key in ("learning_starts", "buffer_size")
            )
            if isinstance(starts, int) and isinstance(size, int) and starts > size:
                usual |= (
                    {"buffer_size": starts}
                    if "learning_starts" in named
                    else {"learning_starts": size}
                )
        return usual

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Yield settings and the values fitted to a run; of several values of a setting the last one counts.

        Given settings are read from this object, and are not overridden by the yielded values.
        """
        yield "beta", 1.0
        yield "gamma", run.gamma
        if self.network == "lstm" and run.episode_steps is not None:
            yield "window", min(self.window, run.episode_steps)
        if self.sampler not in ("uniform", "ero"):
            yield "importance_steps", run.steps
        if self.fits_learning_rate:
            yield "learning_rate", rounded(self.learning_rate_factor * run.learning_rate)
            if self.annealing > 0.0:
                yield "annealing", run.annealing

    def named(self, key: str, otherwise: Any) -> Any:
        """Return the value of a setting if it was given, else ``otherwise``."""
        return getattr(self, key) if key in self.model_fields_set else otherwise

    @property
    def steps_per_gradient(self) -> float:
        """Planned environment steps per gradient step."""
        return self.env_steps_per_gradient_step

    @property
    def changed(self) -> frozenset[str]:
        """Names of the given settings that differ from their defaults."""
        defaults = {key: field.default for key, field in type(self).model_fields.items()}
        defaults |= self._usual(dict(self))
        given = self.model_fields_set & defaults.keys()
        return frozenset(key for key in given if getattr(self, key) != defaults[key])

    @property
    def fitted_batch(self) -> int:
        """Batch size in a run."""
        return self.batch_size

    @field_validator("sampler", mode="before")
    @classmethod
    def _is_no_abbreviation(cls, sampler: Any) -> Any:
        if sampler in ("per", "prioritized", "prioritised"):
            raise ValueError("prioritised experience replay is 'proportional' or 'rank'")
        return sampler

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        for problem in self._incompatibilities():
            raise ValueError(problem)
        return self

    def _incompatibilities(self) -> Iterator[str]:
        """Yield a message for each combination of settings that is not allowed."""
        if self.sampler != "uniform" and self.replay in ("refer", "refer-2"):
            yield (
                f"sampler = {self.sampler} leaves most importance weights in the memory unrefreshed, and with them the "
                f"far-policy fraction that steers beta under replay = {self.replay}; use replay = none or refer-1"
            )
        for key in SCORE_SETTINGS if self.sampler not in ("ero", "ners") else ():
            if getattr(self, key) != AgentConfig.model_fields[key].default:
                yield f"{key} is a setting of sampler = ero or ners, which sampler = {self.sampler} does not read"
        if (self.network == "conv") != (self.image_shape is not None):
            yield (
                f"network = {self.network} with image_shape = {self.image_shape}: network = conv, and no other, needs "
                "image_shape = [channels, height, width]"
            )
        if self.frames > 1 and self.network != "mlp":
            instead = (
                "window" if self.network == "lstm" else "window, the frames beneath the present one"
            )
            yield (
                f"frames = {self.frames} is a setting of network = mlp, which network = {self.network} does not read; "
                f"it has {instead}"
            )
        if self.burn_in > 0 and self.network != "lstm":
            yield (
                f"burn_in = {self.burn_in} is a setting of network = lstm, which network = {self.network} does not read"
            )
        if self.previous_action and self.network == "conv":
            yield "previous_action = true needs vector observations, but network = conv reads images"
        if self.random_start and self.replay != "none":
            yield (
                f"random_start = True stores actions that the policy did not sample, which replay = {self.replay} "
                "cannot weigh; use random_start = false, or replay = none"
            )
        elif self.random_start and self.always_weighs:
            yield (
                "random_start = True stores actions that the policy did not sample, which "
                f"algorithm = {self.algorithm} cannot weigh; use random_start = false"
            )
        if self.sigma <= self.sigma_min:
            yield f"sigma = {self.sigma} must be above its floor, sigma_min = {self.sigma_min}"

    def incompatibilities_with_actions(self, choices: int) -> Iterator[str]:
        """Yield a message for each setting incompatible with ``choices`` discrete actions (0: continuous actions)."""
        yield from ()

    @property
    def written_name(self) -> str:
        """Name of the algorithm in files; for a user's algorithm it includes the module."""
        return registry.written_name(type(self))

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        """Units per hidden layer; the network's default if ``hidden`` is ``None``."""
        if self.hidden is not None:
            return self.hidden
        if self.network == "conv":
            return self.conv_hidden
        return (128, 128) if self.network == "mlp" else (32, 32)

    @property
    def policy_rate(self) -> float:
        """Learning rate of a separate policy network at t = 0."""
        return self.learning_rate

    @property
    def is_clipped(self) -> bool:
        """Whether the normal distribution of a continuous policy is clipped to the range of the actions."""
        return False

    @property
    def has_correlated_noise(self) -> bool:
        """Whether exploration is an Ornstein-Uhlenbeck process around the mean action."""
        return False

    @property
    def is_cooperative(self) -> bool:
        """Whether an agent's value estimates the return of the mean reward of its environment."""
        return False

    @property
    def has_full_dynamics(self) -> bool:
        """Whether importance weights are those of the joint action of all agents in an environment."""
        return False

    @property
    def trace_decay(self) -> float:
        """Lambda of Retrace(lambda) in the value targets of the memory."""
        return 1.0

    @property
    def stores_states(self) -> bool:
        """Whether the memory stores the recurrent state before each step."""
        return False

    @property
    def learns_sequences(self) -> bool:
        """Whether batches consist of sequences of successive steps (``rl_agent.replay.batch.gather_sequences``)."""
        return False

    @property
    def sample_size(self) -> int:
        """Number of steps sampled per gradient."""
        return self.batch_size

    def discount(self, step: int) -> float:
        """Return the discount factor after ``step`` environment steps."""
        return self.gamma

    def importance_correction(self, step: int) -> float:
        """Return the importance-sampling exponent after ``step`` environment steps (beta of Schaul et al. 2016)."""
        if self.importance_steps is None:
            return self.importance_exponent
        share = min(1.0, step / self.importance_steps)
        return (1.0 - share) * self.importance_exponent + share


@registry.for_unimported_algorithms
class NotImportedConfig(AgentConfig):
    """Settings of a user's algorithm whose module is not imported: readable, but not usable for learning."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def written_name(self) -> str:
        """Name of the algorithm as read."""
        return self.algorithm

    @classmethod
    def _is_of_others(cls, key: str, value: Any) -> bool:
        return False

    @model_serializer(mode="wrap")
    def _with_those_of_others(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return handler(self)

    def _incompatibilities(self) -> Iterator[str]:
        yield from ()
