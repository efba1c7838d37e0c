"""What every learner reads, and how settings that nobody reads are refused."""

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
    model_serializer,
    model_validator,
)

from rl_agent.config import registry
from rl_agent.config.old_names import current_settings
from rl_agent.config.run_length import RunLength, rounded

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
"""Settings of the samplers that score steps by a network."""


class AgentConfig(BaseModel):
    """Settings of one learner; here those that every algorithm has.

    ``AgentConfig(algorithm="sac", ...)`` and ``AgentConfig.model_validate`` make a :class:`SACConfig`, as
    :class:`pathlib.Path` makes the path of its system.

    What is not named has the paper's value, until ``rl_agent.config.defaults.fit`` fits it to a run.
    ``model_fields_set`` is what was named. A written configuration has the settings of all algorithms, those of others
    at their defaults.

    Attributes
    ----------
    algorithm
        The learning rule; see ``rl_agent/algorithms``.
    defaults
        Where a run takes settings from that are not named: ``run`` fits them to its length and that of its episodes
        (``rl_agent/config/defaults.py``), ``paper`` leaves them as published.
    network
        ``mlp`` (softsign layers), ``lstm`` (recurrent layers, trained on windows) or ``conv`` (convolutions of
        pictures, which the memory holds as ``uint8``).
    hidden
        Units per hidden layer; ``None`` takes the paper's 128, 128 (mlp) or 32, 32 (lstm), or 512 (conv).
    activation
        Of the hidden layers of an mlp; those of a conv are ReLU.
    window
        Steps of history before the sampled step that an lstm is unrolled over (appendix D runs: 16); of a conv the
        frames that are stacked beneath the present one (3).
    frames
        Network ``mlp``: observations that are stacked, the present one and those before it.
    previous_action
        Whether the action of the step before is read beside each observation; before the first step it is zero. Of
        continuous actions in half ranges, clipped; of discrete ones a number for each, 1 for the chosen one.
    image_shape
        Network ``conv``: channels, height and width that the numbers of an observation are, in this order.
    convolutions
        Network ``conv``: channels, side of the filters and stride of each layer (those of Mnih et al. 2015; Rainbow has
        its own).
    gamma
        Discount factor, in [0, 1].
    learning_rate
        Step size of Adam at t = 0 (eta of eq. 13); also the pace of beta, unless it has its own. With separate
        networks, that of the critics.
    batch_size
        Steps sampled for a gradient (B).
    buffer_size
        Steps that the replay memory holds at most (N); whole episodes leave first in, first out.
    learning_starts
        Steps in the memory at which learning starts (N_start); scaling of states is frozen there.
    env_steps_per_gradient_step
        Environment steps per gradient step (F), held exactly; 0.5 means two gradient steps per step.
    replay
        What is remembered and forgotten: ``refer`` (rules 1 and 2), ``refer-1`` (only clips far-policy gradients),
        ``refer-2`` (only the KL penalty, importance weights clipped at 1000) or ``none`` (plain experience replay).
    sampler
        Which steps are sampled: ``uniform``, ``rank`` or ``proportional`` (prioritised by TD error, Schaul et al.
        2016), ``ero`` (from a learned subset, Zha et al. 2019) or ``ners`` (by learned scores, Oh et al. 2021). All but
        the first need ``replay`` ``none`` or ``refer-1``; ACER samples episodes and PPO uses every step, so they take
        none.
    priority_exponent
        How strongly priorities count; ``None`` takes 0.7 (rank), 0.6 (proportional) or 0.5 (ners).
    importance_exponent
        How far importance-sampling weights make up for the priorities, 0 to 1.
    importance_steps
        Environment steps in which ``importance_exponent`` rises to 1, in proportion; ``None`` leaves it as it is.
    performance_window
        Sampler ``ero`` or ``ners``: training episodes whose mean return is compared with that of as many before.
    score_learning_rate
        Sampler ``ero`` or ``ners``: step size of Adam for its network.
    c_max_scale
        C of eq. 13: far-policy starts at an importance weight of c_max = 1 + C / (1 + A t).
    annealing
        A of eq. 13: pace of the annealing of c_max and of the learning rate, per environment step.
    far_policy_target
        D of eq. 12: the fraction of far-policy steps in the memory that beta aims at.
    beta
        Weight of the loss against the KL penalty at t = 0 (eq. 10; 0.3 in Weber et al. 2022).
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
    serves_multi_agent: ClassVar[bool] = False
    """Whether several agents may act together in an environment."""
    is_stochastic: ClassVar[bool] = True
    """Whether actions are sampled from the policy that is learned; else they are its mean action and noise."""
    title: ClassVar[str] = ""
    """What the algorithm is called in tables and plots; its name where this is empty."""
    title_replay: ClassVar[Replay] = "none"
    """The ``replay`` that the title stands for; any other is added to it."""
    colour: ClassVar[str] = ""
    """Of its curves in plots; one of those for variants where this is empty."""
    fits_learning_rate: ClassVar[bool] = True
    """Whether the learning rate and its annealing follow the length of a run; else they are as published."""
    learning_rate_factor: ClassVar[float] = 1.0
    """Learning rate over the usual one of a run of the same length."""
    conv_hidden: ClassVar[tuple[int, ...]] = (512,)
    """Units of the hidden layers above convolutions, where the settings do not say."""

    algorithm: str = registry.DEFAULT_ALGORITHM
    defaults: Literal["run", "paper"] = "run"
    network: Literal["mlp", "lstm", "conv"] = "mlp"
    hidden: Hidden | None = None
    activation: Activation = "softsign"
    window: int = Field(default=16, ge=0, le=1000)
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
        """Make the settings of the algorithm that is named."""
        return super().__new__(cls) if cls is not AgentConfig else cls.model_validate(settings)

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Any:
        """Validate settings, for :class:`AgentConfig` itself as those of the algorithm that they name."""
        if cls is not AgentConfig:
            return super().model_validate(obj, **options)
        return registry.validate(obj)

    @model_validator(mode="wrap")
    @classmethod
    def _take_the_defaults_of_the_algorithm(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self]
    ) -> Self:
        if not isinstance(data, dict):
            return handler(data)
        named = current_settings(data)
        own = {key: value for key, value in named.items() if not cls._is_of_others(key, value)}
        config = handler(cls._usual(own) | own)
        # what was named, without the defaults
        object.__setattr__(config, "__pydantic_fields_set__", set(own))
        return config

    @classmethod
    def _is_of_others(cls, key: str, value: Any) -> bool:
        """Tell whether this is a setting of other algorithms at its default; refuse another value of it."""
        default = registry.default_settings()
        if key in cls.model_fields or key not in default:
            return False
        if (tuple(value) if isinstance(value, list) else value) != default[key]:  # as JSON has it
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
        """Return the defaults that depend on what was named."""
        usual: dict[str, Any] = {}
        if named.get("network") == "lstm":
            usual |= {
                key: AgentConfig.model_fields[key].default for key in ("hidden", "activation")
            }
        if named.get("network") == "conv":
            usual |= {"window": 3, "activation": "relu", "hidden": cls.conv_hidden}
        if named.get("defaults", "run") == "run":
            # one of the two named alone: the other one follows until it is fitted to the run
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
        """Yield what fits a run, for each setting that has a rule; of two values of a setting the later one counts.

        Values that were named are this object's; what is named stays, whatever is yielded.
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
        """Return the value of a setting that was named, or something else."""
        return getattr(self, key) if key in self.model_fields_set else otherwise

    @property
    def fitted_batch(self) -> int:
        """Steps of a gradient in a run."""
        return self.batch_size

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        for problem in self._incompatibilities():
            raise ValueError(problem)
        return self

    def _incompatibilities(self) -> Iterator[str]:
        """Say which settings do not go together, and why, a sentence each."""
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
        if self.previous_action and self.network == "conv":
            yield "previous_action = True needs a vector to stand beside, and network = conv reads pictures"
        if self.random_start and self.replay != "none":
            yield (
                f"random_start = True stores actions that the policy did not sample, which replay = {self.replay} "
                "cannot weigh; use random_start = false, or replay = none"
            )
        if self.sigma <= self.sigma_min:
            yield f"sigma = {self.sigma} must be above its floor, sigma_min = {self.sigma_min}"

    def incompatibilities_with_actions(self, choices: int) -> Iterator[str]:
        """Say which settings do not go with a task's actions: ``choices`` discrete ones, or with 0 continuous ones."""
        yield from ()

    @property
    def written_name(self) -> str:
        """Name of the algorithm as it is written, with the module of one of somebody's own."""
        return registry.written_name(type(self))

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
    def has_correlated_noise(self) -> bool:
        """Whether exploration is an Ornstein-Uhlenbeck process around the mean action."""
        return False

    @property
    def is_cooperative(self) -> bool:
        """Whether an agent's value counts the mean reward of its environment."""
        return False

    @property
    def has_full_dynamics(self) -> bool:
        """Whether importance weights are those of the actions of all agents in an environment."""
        return False

    @property
    def trace_decay(self) -> float:
        """Lambda of Retrace(lambda) in the value targets of the memory."""
        return 1.0

    @property
    def sample_size(self) -> int:
        """How many steps are sampled for a gradient."""
        return self.batch_size

    def discount(self, step: int) -> float:
        """Discount factor after ``step`` environment steps."""
        return self.gamma

    def importance_correction(self, step: int) -> float:
        """How far weights make up for priorities after ``step`` environment steps (beta of Schaul et al. 2016)."""
        if self.importance_steps is None:
            return self.importance_exponent
        share = min(1.0, step / self.importance_steps)
        return (1.0 - share) * self.importance_exponent + share


@registry.stands_for_others
class NotImportedConfig(AgentConfig):
    """Settings of an algorithm of somebody's own whose module is not imported: to look at, not to learn with."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def written_name(self) -> str:
        """Name of the algorithm, as it was written."""
        return self.algorithm

    @classmethod
    def _is_of_others(cls, key: str, value: Any) -> bool:
        return False

    @model_serializer(mode="wrap")
    def _with_those_of_others(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return handler(self)

    def _incompatibilities(self) -> Iterator[str]:
        yield from ()
