"""Latest network outputs for every stored step: values, importance weights, value targets, far-policy flags.

Per step these are V, A (if it has a closed form), rho, D_KL(mu || pi), V_tbc and the far-policy flag; per episode the
value of its final observation: 0 after termination, V(s_T) after truncation, computed when the episode ends
and again at every full sweep. They are stored at the same ring indices as the steps, and are as old as the last
gradient step that sampled the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay import targets
from rl_agent.replay.refer import is_near_policy
from rl_agent.replay.storage import Episode, EpisodeStorage, in_larger_table
from rl_agent.replay.targets import Coefficients, StoredSteps
from rl_agent.runtime.jit import compiled

__all__ = ["StoredValues"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class StoredValues:
    """Network outputs for the steps of a storage.

    Parameters
    ----------
    storage
        Storage of the steps.
    trace_decay
        Lambda of the value targets (``rl_agent/replay/targets.py``).

    Attributes
    ----------
    value, advantage, rho, kl, v_tbc, far
        Ring arrays, shape (capacity,).
    final_value
        Value of the final observation of each episode, by rows of the episode table.
    n_far
        Number of experiences whose ``far`` flag is set.
    """

    STEP_FIELDS = ("value", "advantage", "rho", "v_tbc", "kl", "far")

    def __init__(self, storage: EpisodeStorage, trace_decay: float = 1.0) -> None:
        self._storage, self.trace_decay = storage, np.float32(trace_decay)
        capacity = storage.capacity
        self.value = np.zeros(capacity, np.float32)
        self.advantage = np.zeros(capacity, np.float32)
        self.rho = np.zeros(capacity, np.float32)
        self.v_tbc = np.zeros(capacity, np.float32)
        self.kl = np.zeros(capacity, np.float32)
        self.far = np.zeros(capacity, np.bool_)
        self.final_value = np.zeros(len(storage.start), np.float32)
        self.n_far = 0

    def add(
        self, rows: I64, episodes: Sequence[Episode], gamma: float, reward_scale: float
    ) -> None:
        """Initialise the values of episodes that were just stored in ``rows``.

        The steps start with rho = 1 and KL = 0, because the policy that acted is the current one except for the
        gradient steps taken since.
        """
        for row, episode in zip(rows, episodes, strict=True):
            indices = self._storage.episode_indices(row)
            self.final_value[row] = episode.final_value
            self.value[indices] = episode.value
            self.advantage[indices] = 0.0
            self.rho[indices] = 1.0
            self.kl[indices] = 0.0
            self.far[indices] = False
        targets.sweep_all(rows, self.steps, self.coefficients(gamma, reward_scale))

    @property
    def steps(self) -> StoredSteps:
        """The arrays from which value targets are computed."""
        storage = self._storage
        return StoredSteps(
            position=storage.position,
            reward=storage.reward,
            value=self.value,
            advantage=self.advantage,
            rho=self.rho,
            kl=self.kl,
            far=self.far,
            v_tbc=self.v_tbc,
            start=storage.start,
            length=storage.length,
            final_value=self.final_value,
        )

    def coefficients(self, gamma: float, reward_scale: float) -> Coefficients:
        """Return the coefficients of the value targets."""
        scales = np.float32(gamma), np.float32(1.0 / reward_scale)
        return Coefficients(*scales, self.trace_decay)

    def forget(self, indices: I64) -> None:
        """Update ``n_far`` after the steps at ``indices`` were removed."""
        self.n_far -= int(np.count_nonzero(self.far[indices]))

    def double_table(self) -> None:
        """Double the table of final values, before the storage doubles its episode table."""
        ids = np.arange(self._storage.first_id, self._storage.next_id)
        self.final_value = in_larger_table(self.final_value, ids)

    def store(
        self,
        indices: I64,
        value: F32,
        rho: F32,
        kl: F32,
        far: Flags,
        advantage: F32 | None = None,
    ) -> None:
        """Store new network outputs for sampled steps (arguments as in ``refresh``), without updating V_tbc."""
        if self._storage.agents_per_env > 1:
            far = far & self._storage.is_present(indices)
        self.n_far += _store(indices, value, rho, kl, far, self.steps)
        if advantage is not None:
            self.advantage[indices] = advantage

    def refresh(
        self,
        indices: I64,
        value: F32,
        rho: F32,
        kl: F32,
        far: Flags,
        gamma: float,
        reward_scale: float,
        advantage: F32 | None = None,
    ) -> None:
        """Store new network outputs for sampled steps, and update V_tbc of these and all earlier steps.

        Parameters
        ----------
        indices
            Ring indices of the sampled steps, shape (B,); for a step sampled twice the last values count.
        value, rho, kl, far
            New V(s_t), importance weight, KL and far-policy flag, shape (B,).
        gamma, reward_scale
            Discount factor and reward scale of the value target.
        advantage
            New A(s_t, a_t), shape (B,), if it has a closed form.
        """
        self.store(indices, value, rho, kl, far, advantage)
        ordered = np.sort(indices)
        rows, coefficients = self._storage.rows(ordered), self.coefficients(gamma, reward_scale)
        targets.sweep_sampled(ordered, rows, self.steps, coefficients)

    def sweep(self, gamma: float, reward_scale: float) -> None:
        """Recompute V_tbc of every stored step."""
        coefficients = self.coefficients(gamma, reward_scale)
        targets.sweep_all(self._storage.all_rows(), self.steps, coefficients)

    def estimate_advantages(
        self, gamma: float, gae_lambda: float, reward_scale: float, *, standardise: bool
    ) -> None:
        """Write the generalised advantage estimate A_t to ``advantage`` and V + A_t to ``v_tbc`` for every step.

        Parameters
        ----------
        gamma, gae_lambda, reward_scale
            Discount factor, lambda, and divisor of the rewards.
        standardise
            Whether to standardise A_t to mean 0 and standard deviation 1 over all steps.
        """
        # on-policy: importance weights of 1, and no closed-form advantage
        capacity = self._storage.capacity
        steps = self.steps._replace(
            advantage=np.zeros(capacity, np.float32), rho=np.ones(capacity, np.float32)
        )
        coefficients = self.coefficients(gamma, reward_scale)._replace(decay=np.float32(gae_lambda))
        targets.sweep_all(self._storage.all_rows(), steps, coefficients)
        indices = self._storage.indices()
        advantage = self.v_tbc[indices] - self.value[indices]
        if standardise:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        self.advantage[indices] = advantage

    def classify(self, c_max: float) -> None:
        """Recompute every far-policy flag from the stored importance weights."""
        indices = self._storage.indices()
        far = ~is_near_policy(self.rho[indices], 1.0 / c_max, c_max)
        self._set_far(indices, far)

    def means(self) -> dict[str, float]:
        """Return means over the stored experiences: ``far_fraction``, ``kl`` and ``rho``; 0 if there are none."""
        indices = self._storage.experiences()
        stored = max(1, len(indices))
        return {
            "far_fraction": self.n_far / stored,
            "kl": float(self.kl[indices].sum(dtype=np.float64)) / stored,
            "rho": float(self.rho[indices].sum(dtype=np.float64)) / stored,
        }

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, int]]:
        """Return the arrays and counters for ``restore``."""
        indices, rows = self._storage.indices(), self._storage.all_rows()
        arrays = {name: getattr(self, name)[indices] for name in self.STEP_FIELDS}
        return arrays | {"final_value": self.final_value[rows]}, {"n_far": self.n_far}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the arrays of ``state``; the storage has already been restored."""
        indices = self._storage.indices()
        for name in self.STEP_FIELDS:
            getattr(self, name)[indices] = arrays[name]
        self.final_value[self._storage.all_rows()] = arrays["final_value"]
        self._set_far(indices, self.far[indices])

    def _set_far(self, indices: I64, far: Flags) -> None:
        """Set the flags of all steps; they are false where an agent took no part."""
        far = far & self._storage.is_present(indices)
        self.far[indices] = far
        self.n_far = int(np.count_nonzero(far))


@compiled()
def _store(indices: I64, value: F32, rho: F32, kl: F32, far: Flags, stored: StoredSteps) -> int:
    """Write refreshed values at ``indices``; return the change of the number of far-policy steps."""
    grown = 0
    for b in range(indices.shape[0]):
        k = indices[b]
        stored.value[k] = value[b]
        stored.rho[k] = rho[b]
        stored.kl[k] = kl[b]
        grown += int(far[b]) - int(stored.far[k])
        stored.far[k] = far[b]
    return grown
