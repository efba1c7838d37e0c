"""Which observations are learnable, and detection of divergence."""

import numpy as np
from test_learner import make_learner


def test_extreme_observations_are_not_learnable():
    learner = make_learner()
    rows = np.array([[0.0, 1.0], [1e18, 0.0], [0.0, -1.1e18], [np.inf, 0.0], [np.nan, 0.0]])
    assert learner.learnable(rows).tolist() == [True, True, False, False, False]
    learner.state_scale.freeze(
        np.array([[-2.0, 0.0], [2.0, 0.0]], np.float32)
    )  # the second never varied
    rows = np.array([[1.9e8, 0.0], [2.1e8, 0.0], [0.0, 0.9e8], [0.0, 1.1e8], [1e17, 1e17]])
    assert learner.learnable(rows).tolist() == [True, False, True, False, False]


def test_nonfinite_weight_means_divergence():
    learner = make_learner()
    assert not learner.algorithm.has_diverged
    learner.algorithm.weights[-1] = np.inf
    assert learner.algorithm.has_diverged
