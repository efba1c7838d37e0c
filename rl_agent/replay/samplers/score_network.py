"""Networks that score steps, with the context of the other steps (NERS) or without (ERO)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_agent.networks import MLP, Network, Parts
from rl_agent.networks.network import fill_glorot
from rl_agent.networks.optim.adam import Adam

__all__ = ["PICTURE_HIDDEN", "PICTURE_OUTPUTS", "ScoreNetwork"]

F32 = npt.NDArray[np.float32]

CONTEXT_HIDDEN, CONTEXT_SIZE = (256, 512, 256), 128
"""Widths of the local and of the global network (table B.1: 256, 512, 256, 128)."""
SCORE_HIDDEN = (256, 128, 64)
PICTURE_HIDDEN, PICTURE_OUTPUTS = (256, 64), 32


class ScoreNetwork:
    """Scores sigma of steps, each in the context of all (NERS, eqs. 3 and 4), with an analytic gradient.

        sigma_k = sigmoid f_s( f_l(x_k), f_g_avg ),    f_g_avg = (1/n) sum_i f_g(x_i)

    The scores are equivariant under permutation of the steps. The layers have ReLU activations; the last layers of f_l
    and f_g are linear, as in the authors' code. If states are images, each is encoded by a network followed by tanh,
    and appended to the other features (appendix B: its convolutions, then 256, 64 and 32 units).

    Parameters
    ----------
    inputs
        Number of features of a step.
    rng
        Samples the initial weights.
    local, has_context
        Whether there are f_l and f_g; with neither, f_s reads x_k directly.
    hidden
        Widths of the hidden layers of f_s.
    picture
        Network that encodes images.
    pictures
        Number of images per step.

    Attributes
    ----------
    weights, gradient
        Flat vectors.
    adam
        Moments of the gradient.
    """

    def __init__(
        self,
        inputs: int,
        rng: np.random.Generator,
        *,
        local: bool = True,
        has_context: bool = True,
        hidden: tuple[int, ...] = SCORE_HIDDEN,
        picture: Network | None = None,
        pictures: int = 0,
    ) -> None:
        self._inputs, self._pictures = inputs, pictures if picture is not None else 0
        inputs += self._pictures * PICTURE_OUTPUTS
        names = [
            name for name, is_there in (("local", local), ("context", has_context)) if is_there
        ]
        below = {name: MLP(inputs, CONTEXT_HIDDEN, CONTEXT_SIZE, "relu") for name in names}
        score = MLP(CONTEXT_SIZE * len(below) or inputs, hidden, 1, "relu")
        above = {"picture": picture} if picture is not None else {}
        self._parts = Parts(**above, **below, score=score)
        self._passes = {name: self._parts.passes(name) for name in (*above, *below, "score")}
        self._below = tuple(below)
        self.weights: F32 = self._parts.initialise(rng)
        self.gradient: F32 = np.zeros_like(self.weights)
        self._w, self._d = self._parts.arrays(self.weights), self._parts.arrays(self.gradient)
        for name, network in below.items():  # these outputs are hidden features, so not near zero
            fill_glorot(self._w[name][f"weight{network.layers - 1}"], rng)
        self.adam = Adam(len(self.weights))
        self._scores: F32 = np.zeros(0, np.float32)
        self._encoded: F32 = np.zeros((0, 0), np.float32)

    def __call__(self, features: F32, pictures: F32 | None = None) -> F32:
        """Score steps by features (n, F), and images (T, k n, S); return scores between 0 and 1, shape (n,)."""
        n = len(features)
        if pictures is not None:
            lengths = _ones(self._pictures * n)
            self._encoded = np.tanh(
                self._passes["picture"].forward(self._w["picture"], pictures, lengths)
            )
            features = np.concatenate([features, *np.split(self._encoded, self._pictures)], axis=1)
        seen = (
            features
            if not self._below
            else np.concatenate([self._seen(name, features) for name in self._below], 1)
        )
        outputs = self._passes["score"].forward(self._w["score"], _nothing(n), _ones(n), seen[None])
        self._scores = np.float32(1.0) / (np.float32(1.0) + np.exp(-outputs[:, 0]))
        return self._scores

    def _seen(self, name: str, features: F32) -> F32:
        n = len(features)
        outputs = self._passes[name].forward(self._w[name], _nothing(n), _ones(n), features[None])
        return outputs if name == "local" else np.broadcast_to(outputs.mean(axis=0), outputs.shape)

    def descend(self, d_scores: F32, learning_rate: float) -> None:
        """Take a step of Adam, given dL/d(scores) of the last call, shape (n,)."""
        self.differentiate(d_scores)
        self.adam.step(self.weights, self.gradient, learning_rate)

    def differentiate(self, d_scores: F32) -> None:
        """Write dL/d(weights) to ``gradient``, given dL/d(scores) of the last call, shape (n,)."""
        scores, n = self._scores, len(self._scores)
        d_outputs = (d_scores * scores * (1.0 - scores)).astype(np.float32)[:, None]
        score = self._passes["score"]
        if not self._below:
            score.backward(d_outputs, self._d["score"])
            return
        d_seen = np.empty((1, n, CONTEXT_SIZE * len(self._below)), np.float32)
        score.backward(d_outputs, self._d["score"], d_seen)
        d_features = np.zeros((1, n, self._inputs + self._pictures * PICTURE_OUTPUTS), np.float32)
        part = np.empty_like(d_features) if self._pictures else None
        for name, d in zip(self._below, np.split(d_seen[0], len(self._below), axis=1), strict=True):
            of_each = d if name == "local" else np.broadcast_to(d.mean(axis=0), d.shape)
            self._passes[name].backward(np.ascontiguousarray(of_each), self._d[name], part)
            if part is not None:
                d_features += part
        if self._pictures:
            d_encoded = np.concatenate(
                np.split(d_features[0, :, self._inputs :], self._pictures, axis=1)
            )
            self._passes["picture"].backward(
                d_encoded * (1.0 - self._encoded**2), self._d["picture"]
            )

    def save(self) -> dict[str, npt.NDArray[np.float32]]:
        """Return the arrays for ``restore``."""
        return {
            "weights": self.weights,
            "first": self.adam.first,
            "second": self.adam.second,
            "steps": np.array(self.adam.steps),
        }

    def restore(self, arrays: dict[str, npt.NDArray[np.float32]]) -> None:
        """Restore the result of ``save``."""
        self.weights[:], self.adam.first[:], self.adam.second[:] = (
            arrays["weights"],
            arrays["first"],
            arrays["second"],
        )
        self.adam.steps = int(arrays["steps"])


def _nothing(n: int) -> F32:
    return np.empty((1, n, 0), np.float32)


def _ones(n: int) -> npt.NDArray[np.int64]:
    return np.ones(n, np.int64)
