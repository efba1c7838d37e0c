"""V-RACER where it has no fast path: discrete actions and closed-form advantages."""

import numpy as np
import pytest
from learners import (
    a_batch,
    a_learner,
    divergence,
    finite_differences,
    gaussian,
    loss_and_gradient,
    network,
    some,
)


@pytest.mark.parametrize(
    ("choices", "form", "policy"),
    [
        (3, "none", "normal"),
        (3, "none", "boltzmann"),
        (0, "quadratic", "normal"),
        (0, "gaussian", "normal"),
    ],
)
def test_vracer_with_discrete_actions_or_closed_forms_matches_the_paper(choices, form, policy):
    learner = a_learner("vracer", choices=choices, advantage=form, policy=policy)
    algorithm = learner.algorithm
    _, batch = a_batch(learner)
    _, results, gradient = loss_and_gradient(algorithm, batch)
    held = algorithm.weights.astype(float)
    assert 0 <= results["far"].sum() < 16
    softplus = lambda x: np.log1p(np.exp(x))  # noqa: E731

    def advantage(coefficients, a, m, sigma):
        """A(s, a) with plain loops, eqs. 18 to 22."""
        d = a - m
        if form == "quadratic":
            lower = np.array(
                [[softplus(coefficients[0]), 0.0], [coefficients[1], softplus(coefficients[2])]]
            )
            square = lower @ lower.T
            return -0.5 * d @ square @ d + 0.5 * np.trace(square @ np.diag(sigma**2))
        k, up, down = (
            softplus(coefficients[0]),
            softplus(coefficients[1:3]),
            softplus(coefficients[3:]),
        )
        mean = k * np.prod((np.sqrt(up / (up + sigma**2)) + np.sqrt(down / (down + sigma**2))) / 2)
        return (
            k * np.exp(-0.5 * sum(d[i] ** 2 / (up[i] if d[i] > 0 else down[i]) for i in range(2)))
            - mean
        )

    def loss(flat):
        total = 0.0
        for b in range(16):
            s, a, mu = (
                x.astype(float)
                for x in (batch.windows[0, b], batch.action[b], batch.behaviour_mean[b])
            )
            outputs, constant = (network(algorithm, "network", s, w) for w in (flat, held))
            q_ret, v_tbc = float(batch.q_ret[b]), float(batch.v_tbc[b])
            if choices:
                # eq. 17 of Weber et al. 2022, the logits being minus the energies
                inverse = [
                    softplus(x[4]) if policy == "boltzmann" else 1.0 for x in (outputs, constant)
                ]
                weights = [
                    np.exp(beta * x[1:4])
                    for beta, x in zip(inverse, (outputs, constant), strict=True)
                ]  # eq. 17
                p, p_held = (each / each.sum() for each in weights)
                rho, rho_held = p[int(a[0])] / mu[int(a[0])], p_held[int(a[0])] / mu[int(a[0])]
                kl = np.sum(mu * np.log(mu / p))
            else:
                s_mu, sigma, sigma_held = (
                    batch.behaviour_std[b].astype(float),
                    softplus(flat[-2:]),
                    softplus(held[-2:]),
                )
                rho = gaussian(a, outputs[1:3], sigma) / gaussian(a, mu, s_mu)
                rho_held = gaussian(a, constant[1:3], sigma_held) / gaussian(a, mu, s_mu)
                kl = divergence(mu, s_mu, outputs[1:3], sigma)
            one = -rho * (q_ret - constant[0]) + 0.5 * (outputs[0] - v_tbc) ** 2
            if form != "none":
                error = advantage(outputs[3:], a, constant[1:3], sigma_held) + constant[0] - q_ret
                one += 0.5 * (rho_held * error) ** 2
            total += 0.4 * one * (1 / 3 < rho_held < 3) + 0.6 * kl
        return total / 16

    where = np.r_[some(algorithm, "network", 30), np.arange(len(held) - 2, len(held))]
    np.testing.assert_allclose(
        gradient[where], finite_differences(loss, held, where), atol=1e-6, rtol=2e-4
    )
    assert np.abs(gradient[where]).max() > 1e-2
    if form != "none":
        indices = algorithm.network.views(np.arange(algorithm.network.size))["weight1"][
            :, 3:
        ].ravel()
        assert np.abs(gradient[indices]).max() > 1e-3


def test_closed_forms_enter_the_stored_targets():
    learner = a_learner("vracer", advantage="quadratic")
    for _ in range(20):
        learner.update()
    memory = learner.memory
    indices = memory.storage.indices()
    assert np.abs(memory.values.advantage[indices]).max() > 1e-2
    scale = learner.reward_scale.value
    for episode_id in range(memory.storage.first_id, memory.storage.next_id):
        row = episode_id % len(memory.storage.start)
        following = float(memory.values.final_value[row])
        for k in range(
            memory.storage.start[row] + memory.storage.length[row] - 1,
            memory.storage.start[row] - 1,
            -1,
        ):
            q_ret = memory.storage.reward[k] / scale + learner.config.gamma * following
            q = memory.values.value[k] + memory.values.advantage[k]
            following = memory.values.value[k] + min(1.0, memory.values.rho[k]) * (q_ret - q)
            assert memory.values.v_tbc[k] == pytest.approx(following, abs=1e-4)
