"""The settings of a learner, typed and validated at start.

The defaults are the values of the paper (Novati & Koumoutsakos 2019, "Remember and Forget for Experience
Replay", appendices A and B) unless a field says otherwise; presets override them and name what differs. Where an
algorithm has other defaults than V-RACER they stand in ``DEFAULTS``.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, model_validator

__all__ = ["AgentConfig"]

PositiveInt = Annotated[int, Field(ge=1)]

Algorithm = Literal["vracer", "ddpg", "naf", "acer", "td3", "sac", "ppo"]

DEFAULTS: dict[str, dict[str, Any]] = {
    "ddpg": {"batch": 128, "critic_l2": 1e-4, "sigma": 0.2},
    "naf": {"sigma": 0.2},
    "acer": {
        "memory": 100_000,
        "start": 2**15,
        "target_rate": 1e-3,
        "replay": "none",
    },
    "td3": {
        "hidden": (256, 256),
        "activation": "relu",
        "batch": 128,
        "gamma": 0.99,
        "learning_rate": 3e-4,
        "memory": 1_000_000,
        "start": 5_000,
        "target_rate": 5e-3,
        "sigma": 0.1,
        "replay": "none",
        "a": 0.0,
    },
    "sac": {
        "hidden": (256, 256),
        "activation": "relu",
        "batch": 128,
        "gamma": 0.99,
        "learning_rate": 3e-4,
        "memory": 1_000_000,
        "start": 5_000,
        "target_rate": 5e-3,
        "sigma": 1.0,
        "squash": "tanh",
        "replay": "none",
        "a": 0.0,
    },
    "ppo": {
        "hidden": (64, 64),
        "activation": "tanh",
        "batch": 64,
        "learning_rate": 3e-4,
        "replay": "none",
    },
}
"""Defaults of each algorithm where they differ from the fields': ReF-ER paper (appendix A), NERS paper (table B.1)."""

POLICY_SHARE = {"ddpg": 0.1, "acer": 0.1, "ppo": 1 / 3}
"""Learning rate of the policy over that of the critics, where it is not 1 (ReF-ER paper, appendix A)."""

CONTINUOUS_ONLY = ("ddpg", "naf", "td3", "sac")

OWNERS: dict[str, tuple[str, ...]] = {
    "policy_learning_rate": ("ddpg", "acer", "td3", "sac", "ppo"),
    "target_rate": ("ddpg", "naf", "acer", "td3", "sac"),
    "critic_l2": ("ddpg", "td3", "sac"),
    "noise": ("ddpg",),
    "piece": ("vracer", "ddpg", "naf", "acer", "td3", "sac"),
    "advantage": ("vracer",),
    "policy": ("vracer",),
    "relation": ("vracer",),
    "dynamics": ("vracer",),
    "policy_delay": ("td3",),
    "target_noise": ("td3",),
    "target_noise_clip": ("td3",),
    "temperature": ("sac",),
    "target_entropy": ("sac",),
    "truncation": ("acer",),
    "trust_region": ("acer",),
    "dueling_samples": ("acer",),
    "episodes": ("acer",),
    "segment": ("acer",),
    "replay_ratio": ("acer",),
    "horizon": ("ppo",),
    "epochs": ("ppo",),
    "clip": ("ppo",),
    "gae_lambda": ("ppo",),
}
"""Which algorithms read a setting that not all of them have."""


def _published(named: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of the named algorithm where they differ from the fields'."""
    algorithm = named.get("algorithm", "vracer")
    defaults = dict(DEFAULTS.get(algorithm, {})) if isinstance(algorithm, str) else {}
    if algorithm == "ddpg" and named.get("replay") == "none":
        # appendix A and section 5.1: without ReF-ER DDPG needs correlated noise and no annealing
        defaults |= {"noise": "ou", "a": 0.0}
    if named.get("network") == "lstm":
        defaults = {key: value for key, value in defaults.items() if key not in ("hidden", "activation")}
    if algorithm in ("td3", "sac") and named.get("replay", "none") == "none":
        defaults |= {"random_start": True}
    if named.get("defaults", "run") == "run":
        # one of the two named alone: the other one follows until it is fitted to the run
        fields = {key: defaults.get(key, AgentConfig.model_fields[key].default) for key in ("start", "memory")}
        start, memory = (named.get(key, fields[key]) for key in ("start", "memory"))
        if isinstance(start, int) and isinstance(memory, int) and start > memory:
            defaults |= {"memory": start} if "start" in named else {"start": memory}
    return defaults


class AgentConfig(BaseModel):
    """Settings of one learner.

    What is not named has the paper's value, until ``rl_agent.defaults.fit`` fits it to a run. ``model_fields_set`` is
    what was named.

    Attributes
    ----------
    algorithm
        The learning rule; see ``rl_agent/algorithms``.
    defaults
        Where a run takes settings from that are not named: ``run`` fits them to its length and that of its episodes
        (``rl_agent/defaults.py``), ``paper`` leaves them as published.
    network
        ``mlp`` (softsign layers) or ``lstm`` (recurrent layers, trained on windows).
    hidden
        Units per hidden layer; ``None`` takes the paper's 128, 128 (mlp) or 32, 32 (lstm).
    activation
        Of the hidden layers of an mlp.
    window
        Steps of history before the drawn step that an lstm is unrolled over (appendix D runs: 16).
    gamma
        Discount factor, in [0, 1].
    learning_rate
        Step size of Adam at t = 0 (eta of eq. 13); also the pace of beta (eq. 12). With separate networks, that of the
        critics.
    policy_learning_rate
        Step size of the policy's own network (DDPG, ACER, TD3, SAC, PPO); ``None`` takes ``learning_rate``, or its
        tenth (DDPG, ACER) or third (PPO) part.
    batch
        Steps drawn for a gradient (B).
    memory
        Steps that the replay memory holds at most (N); whole episodes leave first in, first out.
    start
        Steps in the memory at which learning starts (N_start); scaling of states is frozen there.
    piece
        Steps after which a running episode goes to the memory as far as it has come, bootstrapped there like a
        truncated one; ``None`` (the paper) keeps it back until it ends. An lstm's windows do not cross pieces.
    steps_per_update
        Environment steps per gradient step (F), held exactly; 0.5 means two gradient steps per step.
    replay
        What is remembered and forgotten: ``refer`` (rules 1 and 2), ``refer-1`` (only clips far-policy gradients),
        ``refer-2`` (only the KL penalty, importance weights clipped at 1000) or ``none`` (plain experience replay).
    sampler
        Who is drawn: ``uniform``, ``rank`` or ``proportional`` (prioritised by TD error, Schaul et al. 2016). The last
        two need ``replay`` ``none`` or ``refer-1``; ACER draws episodes and PPO takes every step, so they take none.
    priority_exponent
        How strongly priorities count; ``None`` takes 0.7 (rank) or 0.6 (proportional).
    importance_exponent
        How far importance-sampling weights make up for the priorities, 0 to 1; not annealed.
    c
        C of eq. 13: far-policy starts at an importance weight of c_max = 1 + C / (1 + A t).
    a
        A of eq. 13: pace of the annealing of c_max and of the learning rate, per environment step.
    d
        D of eq. 12: the tolerated fraction of far-policy steps in the memory.
    beta
        Weight of the loss against the KL penalty at t = 0 (eq. 10; 0.3 in Weber et al. 2022).
    sigma
        Standard deviation of the policy at t = 0 (fixed for DDPG, NAF, TD3, ACER), in half ranges of the action (before
        the tanh for SAC; paper: variance 0.2).
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
    policy
        V-RACER: ``normal``, or ``clipped``, the normal clipped to the range of the actions, whose densities know that
        all beyond a bound is the same action (Weber et al. 2022, appendix B).
    relation
        V-RACER, several agents in a world: whose reward an agent's value counts, its own (``individual``) or the mean
        over the world (``cooperative``; Weber et al. 2022, eqs. 8 and 9).
    dynamics
        V-RACER, several agents in a world: ``local`` importance weights of each agent's own action, or ``full`` ones of
        all actions together (eqs. 13 and 12 there).
    advantage
        V-RACER: closed form of A(s, a) beside V, ``none``, ``quadratic`` or ``gaussian`` (appendix E).
    target_rate
        Share of the weights that enters the target network (ACER: the average policy) in a gradient step.
    critic_l2
        L2 decay of the critic's weights.
    noise
        DDPG: exploration ``gaussian``, or ``ou`` (Ornstein-Uhlenbeck, theta 0.15), its default without ReF-ER.
    random_start
        Whether actions are uniform over the task's until learning starts; needs ``replay`` ``none``, and is then on
        by default for TD3 and SAC.
    policy_delay, target_noise, target_noise_clip
        TD3: gradient steps per step of the policy; standard deviation and bound of the noise on the target's action.
    temperature, target_entropy
        SAC: the temperature at t = 0, in units of scaled rewards, and the entropy that it aims at; ``None`` takes minus
        the number of action components.
    truncation, trust_region, dueling_samples
        ACER: c of the importance weights, delta of the trust region, draws that estimate the mean advantage.
    episodes, segment
        ACER: episodes drawn for a gradient (in place of ``batch``), and most steps taken of each, one after the other
        (the k of its paper).
    replay_ratio
        ACER, discrete: mean number of replay calls after each on-policy call.
    horizon, epochs, clip, gae_lambda
        PPO: steps collected for an iteration (in place of ``memory`` and ``start``), passes over them (``batch``
        steps a gradient, in place of ``steps_per_update``), bound of rho - 1, lambda of the advantage estimate.
    device
        Where gradients are computed: ``cpu``, or ``cuda`` (torch, captured as a CUDA graph). The memory and the
        acting networks stay on the CPU.
    threads
        Threads of the linear algebra in the process of the learner.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: Algorithm = "vracer"
    defaults: Literal["run", "paper"] = "run"
    network: Literal["mlp", "lstm"] = "mlp"
    hidden: tuple[PositiveInt, ...] | None = Field(default=None, min_length=1)
    activation: Literal["softsign", "relu", "tanh"] = "softsign"
    window: int = Field(default=16, ge=0, le=1000)
    gamma: float = Field(default=0.995, ge=0.0, le=1.0)
    learning_rate: float = Field(default=1e-4, gt=0.0, lt=1.0)
    policy_learning_rate: float | None = Field(default=None, gt=0.0, lt=1.0)
    batch: int = Field(default=256, ge=1)
    memory: int = Field(default=2**18, ge=2)
    start: int = Field(default=2**17, ge=1)
    piece: int | None = Field(default=None, ge=2)
    steps_per_update: float = Field(default=1.0, ge=1e-3, le=1e6)
    replay: Literal["refer", "refer-1", "refer-2", "none"] = "refer"
    sampler: Literal["uniform", "rank", "proportional"] = "uniform"
    priority_exponent: float | None = Field(default=None, ge=0.0, le=2.0)
    importance_exponent: float = Field(default=0.4, ge=0.0, le=1.0)
    c: float = Field(default=4.0, gt=0.0)
    a: float = Field(default=5e-7, ge=0.0)
    d: float = Field(default=0.1, ge=0.0, le=1.0)
    beta: float = Field(default=0.3, ge=0.0, le=1.0)
    sigma: float = Field(default=math.sqrt(0.2), gt=0.0, le=100.0)
    sigma_min: float = Field(default=0.0, ge=0.0, le=100.0)
    center_advantages: bool = False
    acting: Literal["carried", "window"] = "carried"
    squash: Literal["none", "tanh"] = "none"
    policy: Literal["normal", "clipped"] = "normal"
    relation: Literal["individual", "cooperative"] = "individual"
    dynamics: Literal["local", "full"] = "local"
    advantage: Literal["none", "quadratic", "gaussian"] = "none"
    target_rate: float = Field(default=0.01, gt=0.0, le=1.0)
    critic_l2: float = Field(default=0.0, ge=0.0, le=1.0)
    noise: Literal["gaussian", "ou"] = "gaussian"
    random_start: bool = False
    policy_delay: int = Field(default=2, ge=1, le=1000)
    target_noise: float = Field(default=0.2, ge=0.0, le=10.0)
    target_noise_clip: float = Field(default=0.5, ge=0.0, le=10.0)
    temperature: float = Field(default=0.2, gt=0.0, le=1e3)
    target_entropy: float | None = None
    truncation: float = Field(default=5.0, gt=0.0)
    trust_region: float = Field(default=1.0, gt=0.0)
    dueling_samples: int = Field(default=5, ge=1, le=1000)
    episodes: int = Field(default=24, ge=1, le=100_000)
    segment: int = Field(default=50, ge=1, le=100_000)
    replay_ratio: float = Field(default=4.0, ge=0.0, le=1000.0)
    horizon: int = Field(default=2048, ge=2)
    epochs: int = Field(default=10, ge=1, le=1000)
    clip: float = Field(default=0.2, gt=0.0, lt=1.0)
    gae_lambda: float = Field(default=0.97, ge=0.0, le=1.0)
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int = Field(default=1, ge=1, le=256)

    @model_validator(mode="wrap")
    @classmethod
    def _take_the_defaults_of_the_algorithm(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, dict):
            return handler(data)
        config = handler(_published(data) | data)
        object.__setattr__(config, "__pydantic_fields_set__", set(data))  # what was named, without the defaults
        return config

    @model_validator(mode="after")
    def _settings_belong_to_the_algorithm(self) -> AgentConfig:
        for key, owners in OWNERS.items():
            if self.algorithm not in owners and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(
                    f"{key} = {getattr(self, key)} is a setting of {' and '.join(owners)}, "
                    f"which algorithm = {self.algorithm} does not read"
                )
        return self

    @model_validator(mode="after")
    def _parts_fit_together(self) -> AgentConfig:
        chosen = f"algorithm = {self.algorithm}"
        if self.algorithm == "ppo":
            if self.replay != "none" or self.sampler != "uniform":
                raise ValueError(
                    f"{chosen} is on-policy: it uses every step of the last horizon and then forgets it, so replay "
                    f"must be none and sampler uniform, not {self.replay} and {self.sampler}"
                )
            if self.horizon < self.batch:
                raise ValueError(f"horizon = {self.horizon} must not be below batch = {self.batch}")
            if self.network == "lstm":
                raise ValueError(
                    f"{chosen} cuts episodes at its horizon, which the windows of network = lstm cannot cross; use mlp"
                )
        if self.algorithm == "acer":
            if self.sampler != "uniform":
                raise ValueError(
                    f"{chosen} draws stretches of whole episodes for Retrace, where the priorities of single steps "
                    f"(sampler = {self.sampler}) say nothing; use sampler = uniform"
                )
            if self.replay != "none":
                raise ValueError(
                    f"{chosen} bounds its updates by truncated weights and a trust region of its own, so replay must "
                    f"be none, not {self.replay}"
                )
        if self.policy == "clipped" and self.squash != "none":
            raise ValueError(f"policy = clipped has its bounds by itself: squash must be none, not {self.squash}")
        if self.policy == "clipped" and self.advantage != "none":
            raise ValueError(
                f"advantage = {self.advantage} is a form around a normal without bounds, so policy must be normal, not "
                "clipped"
            )
        if self.sampler != "uniform" and self.replay in ("refer", "refer-2"):
            raise ValueError(
                f"sampler = {self.sampler} leaves most importance weights in the memory unrefreshed, and with them the "
                f"far-policy fraction that steers beta under replay = {self.replay}; use replay = none or refer-1"
            )
        if self.noise == "ou" and self.replay != "none":
            raise ValueError(
                f"noise = ou is correlated in time, so the importance weights of replay = {self.replay} would be "
                "wrong; use noise = gaussian, or replay = none"
            )
        if self.random_start and self.replay != "none":
            raise ValueError(
                f"random_start = True stores actions that the policy did not draw, which replay = {self.replay} cannot "
                "weigh; use random_start = false, or replay = none"
            )
        if self.algorithm == "sac" and self.squash != "tanh":
            raise ValueError(f"{chosen} draws from a squashed Gaussian: squash must be tanh, not {self.squash}")
        if self.algorithm in ("ddpg", "td3") and self.squash != "none":
            raise ValueError(f"{chosen} has its tanh inside the policy: squash must be none, not {self.squash}")
        return self

    @model_validator(mode="after")
    def _start_fits_into_memory(self) -> AgentConfig:
        if self.start > self.memory and self.algorithm != "ppo":
            raise ValueError(
                f"start = {self.start} must not be above memory = {self.memory}: learning would never start"
            )
        return self

    @model_validator(mode="after")
    def _sigma_is_above_its_floor(self) -> AgentConfig:
        if self.sigma <= self.sigma_min:
            raise ValueError(f"sigma = {self.sigma} must be above its floor, sigma_min = {self.sigma_min}")
        return self

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        """Units per hidden layer, the network's default where ``hidden`` is not given."""
        if self.hidden is not None:
            return self.hidden
        return (128, 128) if self.network == "mlp" else (32, 32)

    @property
    def policy_rate(self) -> float:
        """Learning rate of a policy's own network at t = 0."""
        if self.policy_learning_rate is not None:
            return self.policy_learning_rate
        return POLICY_SHARE.get(self.algorithm, 1.0) * self.learning_rate

    @property
    def draws(self) -> int:
        """How many the sampler draws for a gradient: steps, or for ACER stretches of episodes."""
        return self.episodes if self.algorithm == "acer" else self.batch
