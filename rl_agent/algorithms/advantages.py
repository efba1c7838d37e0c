"""Closed forms of the advantage A(s, a) = f(s, a) - E_{a' ~ pi} f(s, a') (ReF-ER paper, appendix E).

pi is a Gaussian with mean m and independent components of standard deviation sigma, Sigma = sigma^2; f is concave with
its maximum at m, so A has no mean under pi by construction.

    quadratic   f = -1/2 (a - m)' L L' (a - m)                                                            (eq. 18)
                E f = -1/2 Tr[ L L' Sigma ]                                (eq. 19, which lacks the -1/2 of eq. 18)
    gaussian    f = K exp( -1/2 a+' L+^-1 a+ - 1/2 a-' L-^-1 a- ),  a+ = max(a - m, 0), a- = min(a - m, 0)  (eq. 20)
                E f = K prod_i [ sqrt(L+_i / (L+_i + Sigma_i)) + sqrt(L-_i / (L-_i + Sigma_i)) ] / 2       (eq. 22)

L is lower triangular with a softplus diagonal; K and the diagonals of L+ and L- are softplus, too. The coefficients
(n, C) hold the entries of L row by row (C = A (A + 1) / 2), or K, L+ and L- (C = 1 + 2 A). They minimise

    L_adv = [ rho_t ( A(s_t, a_t) + V(s_t) - Q_ret_t ) ]^2 / 2                                            (eq. 23)

which trains only the coefficients: rho, V, m and sigma are held constant (the paper says only that the coefficients
minimise it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rl_agent.runtime.lazy_torch import torch

__all__ = ["FORMS", "count_coefficients", "gaussian", "loss", "lower_triangular", "quadratic"]

Tensor: TypeAlias = "torch.Tensor"


def count_coefficients(form: str, size: int) -> int:
    """Return the number of coefficients C of a form (zero for ``none``), for actions of ``size`` components."""
    return {"none": 0, "quadratic": size * (size + 1) // 2, "gaussian": 1 + 2 * size}[form]


def lower_triangular(coefficients: Tensor, size: int) -> Tensor:
    """Build L, shape (n, A, A), from its entries row by row, (n, A (A + 1) / 2); softplus on the diagonal."""
    rows, columns = torch.tril_indices(size, size, device=coefficients.device)
    matrix = coefficients.new_zeros(len(coefficients), size, size)
    matrix[:, rows, columns] = coefficients
    diagonal = torch.diag_embed(
        torch.nn.functional.softplus(torch.diagonal(matrix, dim1=1, dim2=2))
    )
    return torch.tril(matrix, -1) + diagonal


def quadratic(coefficients: Tensor, action: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Compute A(s, a) by eqs. 18 and 19.

    Parameters
    ----------
    coefficients
        Shape (n, A (A + 1) / 2).
    action, mean
        Shape (n, A).
    std
        Shape (A,) or (n, A).

    Returns
    -------
    Tensor
        Shape (n,).
    """
    lower = lower_triangular(coefficients, action.shape[1])
    pulled = torch.einsum("nij,ni->nj", lower, action - mean)
    # Tr[L L' Sigma] with a diagonal Sigma
    trace = ((lower**2).sum(2) * std**2).sum(1)
    return 0.5 * (trace - (pulled**2).sum(1))


def gaussian(coefficients: Tensor, action: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Compute A(s, a) by eqs. 20 and 22; arguments as ``quadratic``, with coefficients of shape (n, 1 + 2 A)."""
    size = action.shape[1]
    positive = torch.nn.functional.softplus(coefficients)
    height, above, below = positive[:, 0], positive[:, 1 : 1 + size], positive[:, 1 + size :]
    offset = action - mean
    spread = offset.clamp(min=0.0) ** 2 / above + offset.clamp(max=0.0) ** 2 / below
    share = 0.5 * ((above / (above + std**2)).sqrt() + (below / (below + std**2)).sqrt())
    # the gradient of prod() checks for zeros on the host, which CUDA graph capture forbids; no share is zero
    product = share.log().sum(1).exp()
    return height * (torch.exp(-0.5 * spread.sum(1)) - product)


def loss(advantage: Tensor, value: Tensor, q_ret: Tensor, rho: Tensor) -> Tensor:
    """Compute L_adv by eq. 23 from A(s_t, a_t), V(s_t), Q_ret_t and rho_t, all of shape (n,)."""
    error = rho.detach() * (advantage + value.detach() - q_ret)
    return 0.5 * error**2


FORMS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "quadratic": quadratic,
    "gaussian": gaussian,
}
"""Closed forms by their name in the settings."""
