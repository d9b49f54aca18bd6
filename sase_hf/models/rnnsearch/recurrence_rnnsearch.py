"""The loop of the gated units, with and without alignment, and its gradient.

The gradient is written by hand: automatic differentiation would add up the gradient of every weight
and of every source word step by step, where here each is one product of all steps.

Shapes: L steps, D directions that are read side by side (1 with alignment), B sentences, n units, T
source tokens, a units of the alignment model.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def aligned(
    state: Tensor, keys: Tensor, shut: Tensor, query_weight: Tensor, score_weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Return alpha, float32 or wider, (B, T), and the hidden units of its MLP, (B, T, a).

    e_ij = v_a^T tanh(W_a s_{i-1} + U_a h_j) (appendix A.1.2). Arguments as in `Recurrence`.
    """
    hidden = (keys + (state @ query_weight.t()).unsqueeze(1)).tanh_()
    scores = torch.matmul(hidden, score_weight)
    return (scores + shut).softmax(-1), hidden  # `shut` is float32 or wider


class Recurrence(torch.autograd.Function):
    """All steps of a gated unit (appendix A.1.1), each input of which may be an aligned source.

    r = sigmoid(x_r + U_r h), z = sigmoid(x_z + U_z h), h~ = tanh(x_h + U [r o h]),
    h' = (1 - z) o h + z o h~, where x_i is the input of the step plus, with alignment,
    sum_j alpha_ij values_j.

    Args:
        inputs: Reset gate, update gate and candidate of each step, shape (L, D, B, 3n).
        state: h of the first step, shape (D, B, n).
        gates_weight: U_r and U_z, shape (D, 2n, n).
        state_weight: U, shape (D, n, n).
        keys: U_a h_j, shape (B, T, a); None without alignment, as all that follow.
        values: Shape (B, T, 3n).
        shut: Added to the scores: the lowest number on padding, else 0, shape (B, T).
        query_weight: W_a, shape (a, n).
        score_weight: v_a, shape (a,).

    Returns:
        The states before each step and after the last, (L + 1, D, B, n), and alpha, (L, B, T), or
        None.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        state: Tensor,
        gates_weight: Tensor,
        state_weight: Tensor,
        keys: Tensor | None = None,
        values: Tensor | None = None,
        shut: Tensor | None = None,
        query_weight: Tensor | None = None,
        score_weight: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Run the steps."""
        attention: Any = (keys, shut, query_weight, score_weight)
        units = state.shape[-1]
        states, all_gates, candidates, alphas = [state], [], [], []
        for x in inputs:
            if values is not None:
                alpha, _ = aligned(state[0], *attention)
                alphas.append(alpha)
                x = x + (alpha.to(values.dtype).unsqueeze(1) @ values).transpose(0, 1)
            gates = torch.baddbmm(x[..., : 2 * units], state, gates_weight.mT).sigmoid_()
            reset, update = gates.chunk(2, -1)
            candidate = torch.baddbmm(x[..., 2 * units :], reset * state, state_weight.mT).tanh_()
            state = state + update * (candidate - state)
            states.append(state)
            all_gates.append(gates)
            candidates.append(candidate)
        of_steps = [torch.stack(states), torch.stack(all_gates), torch.stack(candidates)]
        alignment = torch.stack(alphas) if alphas else None
        weights = (gates_weight, state_weight)
        ctx.save_for_backward(*of_steps, *weights, *attention, values, alignment)
        return of_steps[0], alignment

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the steps backwards; x' stands for the gradient of x."""
        states, gates, candidates, gates_weight, state_weight, *rest = ctx.saved_tensors
        keys, shut, query_weight, score_weight, values, alignment = rest
        states_grad, alignment_grad = grads
        units = states.shape[-1]
        resets, updates = gates.chunk(2, -1)
        inputs_grad = torch.empty(*gates.shape[:-1], 3 * units, dtype=gates.dtype)
        inputs_grad = inputs_grad.to(gates.device)
        state_grad = states_grad[-1]
        if keys is not None:
            keys_grad, score_grad = torch.zeros_like(keys), torch.zeros_like(score_weight)
            queries_grad = keys.new_empty(len(gates), keys.shape[0], keys.shape[2])
        for i in reversed(range(len(gates))):
            state, reset, update, candidate = states[i], resets[i], updates[i], candidates[i]
            # Through h' and h~
            slope = state_grad * update * (1 - candidate * candidate)
            reset_state_grad = slope @ state_weight
            step = inputs_grad[i]
            step[..., 2 * units :] = slope
            step[..., :units] = reset_state_grad * state * reset * (1 - reset)
            step[..., units : 2 * units] = state_grad * (candidate - state) * update * (1 - update)
            state_grad = (
                states_grad[i]
                + state_grad * (1 - update)
                + reset_state_grad * reset
                + step[..., : 2 * units] @ gates_weight
            )
            if keys is not None:
                # Through alpha and e
                alpha, hidden = aligned(state[0], keys, shut, query_weight, score_weight)
                alpha_grad = (values @ step[0].unsqueeze(-1)).squeeze(-1)
                alpha_grad = alpha_grad.to(alpha.dtype)
                if alignment_grad is not None:
                    alpha_grad = alpha_grad + alignment_grad[i]
                scores_grad = alpha * (alpha_grad - (alpha * alpha_grad).sum(-1, keepdim=True))
                scores_grad = scores_grad.to(hidden.dtype)
                score_grad += scores_grad.flatten() @ hidden.flatten(0, 1)
                hidden_grad = hidden.square_().neg_().add_(1).mul_(score_weight)
                hidden_grad.mul_(scores_grad.unsqueeze(-1))
                keys_grad += hidden_grad
                queries_grad[i] = hidden_grad.sum(1)
                state_grad = state_grad + (queries_grad[i] @ query_weight).unsqueeze(0)
        before = states[:-1].transpose(0, 1).flatten(1, 2)  # (D, L B, n)
        slopes = inputs_grad.transpose(0, 1).flatten(1, 2)  # (D, L B, 3n)
        reset_states = (states[:-1] * resets).transpose(0, 1).flatten(1, 2)
        weight_grads = (
            slopes[..., : 2 * units].mT @ before,
            slopes[..., 2 * units :].mT @ reset_states,
        )
        if keys is None:
            return inputs_grad, state_grad, *weight_grads, None, None, None, None, None
        values_grad = alignment.to(values.dtype).permute(1, 2, 0) @ inputs_grad[:, 0].transpose(
            0, 1
        )
        query_grad = queries_grad.flatten(0, 1).t() @ before[0]
        attention_grads = (keys_grad, values_grad, None, query_grad, score_grad)
        return inputs_grad, state_grad, *weight_grads, *attention_grads


__all__ = ["Recurrence", "aligned"]
