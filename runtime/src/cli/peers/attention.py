"""Attentions."""

import torch
import torch.nn.functional as F
from peers.inputs import ints, normal, uniform


def one_head(q, k, v, **options):
    return F.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None], **options)[0, 0]


def multi_head(q, k, v, heads):
    q, k, v = (x.unflatten(1, (heads, -1)).transpose(0, 1)[None] for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1).flatten(1)


def cross(q, k, v):
    return F.scaled_dot_product_attention(*(x.transpose(0, 1)[None] for x in (q, k, v)))[0].transpose(0, 1)


def grouped(q, k, v):
    sharing = q.shape[0] // k.shape[0]
    k, v = (x.repeat_interleave(sharing, 0)[None] for x in (k, v))
    return F.scaled_dot_product_attention(q[None], k, v)[0]


def distances(q, k):
    return torch.arange(q.shape[0], device=q.device)[:, None] - torch.arange(k.shape[0], device=q.device)


def linear_bias(q, k, v, slope):
    return one_head(q, k, v, attn_mask=slope * distances(q, k).float())


def sliding_window(q, k, v, window):
    return one_head(q, k, v, attn_mask=distances(q, k).abs() <= window)


def linear(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return (q @ (k.t() @ v)) / (q @ k.sum(0)).unsqueeze(1)


def backward(q, k, v, d_out):
    scale = q.shape[1] ** -0.5
    weights = torch.softmax(q @ k.t() * scale, 1)
    d_weights = d_out @ v.t()
    d_scores = weights * (d_weights - (weights * d_weights).sum(1, keepdim=True)) * scale
    return d_scores @ k, d_scores.t() @ q, weights.t() @ d_out


def sinks(q, k, v, count, window):
    behind = distances(q, k)
    keys = torch.arange(k.shape[0], device=q.device)
    return one_head(q, k, v, attn_mask=(behind >= 0) & ((keys < count) | (behind < window)))


def decaying(q, k, v, gamma):
    behind = distances(q, k)
    weights = torch.where(behind >= 0, gamma ** behind.clamp(min=0).float(), 0.0)
    return ((q @ k.t()) * q.shape[1] ** -0.5 * weights) @ v


def flash(dtype, d, causal):
    """Heads of 16-bit floats, side by side: [batch, heads, rows, d]."""

    def inputs(s):
        shapes = [(s["B"], s[heads], s[rows], d) for heads, rows in (("H", "M"), ("G", "N"), ("G", "N"))]
        return [normal(1, *shape).to(dtype) for shape in shapes]

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    return inputs, attention


def flash_backward(dtype, d, causal):
    """The gradients of the same, of a forward pass that has been made: what is timed is the backward pass alone."""

    def inputs(s):
        shapes = [(s["B"], s["H"], s[rows], d) for rows in ("M", "N", "N", "M")]
        q, k, v, d_out = (normal(1, *shape).to(dtype) for shape in shapes)
        q, k, v = (x.requires_grad_() for x in (q, k, v))
        return [F.scaled_dot_product_attention(q, k, v, is_causal=causal), q, k, v, d_out]

    def gradients(out, q, k, v, d_out):
        return torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True)

    return inputs, gradients


def rows(low, high, *shapes):
    return [uniform(low, high, *shape) for shape in shapes]


def cached(q, k, v, k_scale, v_scale):
    scores = (k.float() * q[:, None]).sum(2) * k_scale / q.shape[1] ** 0.5
    weights = scores.softmax(1) * v_scale
    return (weights[:, :, None] * v.float()).sum(1)


def paged(q, k, v, table, last):
    """Keys and values of each sequence brought together from their pages, and those behind its last position masked."""
    keys, values = (x[table.long()].flatten(1, 2).transpose(1, 2) for x in (k, v))
    seen = torch.arange(keys.shape[2], device=q.device) <= last[:, None]
    mask = seen[:, None, None]
    return F.scaled_dot_product_attention(q[:, :, None], keys, values, attn_mask=mask, enable_gqa=True)[:, :, 0]


def paged_inputs(s):
    pages = (s["pages"], s["page"], s["G"], s["D"])
    q, k, v = (normal(1, *shape).to(torch.bfloat16) for shape in ((s["B"], s["H"], s["D"]), pages, pages))
    return [q, k, v, ints(0, s["pages"], torch.int32, s["B"], s["T"]), ints(0, s["S"], torch.int32, s["B"])]


PEERS = {
    "softmax_attention": (lambda s: rows(-0.1, 0.1, (s["M"], s["d"]), (s["N"], s["d"]), (s["N"], s["d"])), one_head),
    "multi_head_attention": (lambda s: [*rows(-10, 10, *[(s["N"], s["d_model"])] * 3), s["h"]], multi_head),
    "multi_head_cross_attention": (lambda s: [normal(1, s[rows], s["H"], s["D"]) for rows in ("M", "N", "N")], cross),
    "casual_attention": (
        lambda s: rows(-100, 100, *[(s["M"], s["d"])] * 3),
        lambda q, k, v: one_head(q, k, v, is_causal=True),
    ),
    "attn_w_linear_bias": (
        lambda s: [*rows(-0.1, 0.1, (s["M"], s["d"]), (s["N"], s["d"]), (s["N"], s["d"])), s["alpha"]],
        linear_bias,
    ),
    "linear_attention": (lambda s: rows(-100, 100, *[(s["M"], s["d"])] * 3), linear),
    "sliding_window_attn": (lambda s: [*rows(-100, 100, *[(s["M"], s["d"])] * 3), s["window_size"]], sliding_window),
    "grouped_query_attention": (
        lambda s: [normal(1, s[heads], s["seq_len"], s["head_dim"]) for heads in ("num_q_heads", "num_kv_heads", "num_kv_heads")],
        grouped,
    ),
    "softmax_attention_backward": (lambda s: [normal(1, s[rows], s["d"]) for rows in ("M", "N", "N", "M")], backward),
    "attention_with_sinks": (
        lambda s: [*rows(-1, 1, *[(s["M"], s["d"])] * 3), s["num_sinks"], s["window_size"]],
        sinks,
    ),
    "decaying_causal_attention": (lambda s: [*(normal(1, s["seq_len"], s["d_model"]) for _ in "qkv"), s["gamma"]], decaying),
    "int8_kv_cache_attention": (
        lambda s: [
            normal(1, s["num_heads"], s["head_dim"]),
            *(ints(-128, 128, torch.int8, s["num_heads"], s["seq_len"], s["head_dim"]) for _ in "kv"),
            *(uniform(0.01, 0.11, s["num_heads"], s["seq_len"]) for _ in "kv"),
        ],
        cached,
    ),
    "flash_decoding": (paged_inputs, paged),
    **{
        f"flash_attention_{name}_d{d}{'_causal' if causal else ''}": flash(dtype, d, causal)
        for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16))
        for d in (64, 128)
        for causal in (False, True)
    },
    **{
        f"flash_attention_backward_{name}_d{d}{'_causal' if causal else ''}": flash_backward(dtype, d, causal)
        for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16))
        for d in (64, 128)
        for causal in (False, True)
        if name == "bf16" or not causal
    },
}
