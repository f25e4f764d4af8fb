"""Scans, and what is solved or summed by them."""

import torch
import torch.nn.functional as F
from peers.inputs import ints, uniform


def linear_recurrence(a, x):
    # Scans of pairs by doubling: PyTorch has none for such operators.
    a, h, step = a.clone(), x.clone(), 1
    a[:, 0] = 0
    while step < x.shape[1]:
        h = torch.cat([h[:, :step], a[:, step:] * h[:, :-step] + h[:, step:]], 1)
        a = torch.cat([a[:, :step], a[:, step:] * a[:, :-step]], 1)
        step *= 2
    return h


def selective_scan(u, delta, a, b, c, skip):
    decay = torch.exp(delta.unsqueeze(-1) * a)
    inputs = (delta * u).unsqueeze(-1) * b.unsqueeze(2)
    h = torch.zeros_like(inputs[:, 0])
    rows = []
    for t in range(u.shape[1]):
        h = decay[:, t] * h + inputs[:, t]
        rows.append((h * c[:, t].unsqueeze(1)).sum(-1))
    return torch.stack(rows, 1) + skip * u


def largest_window(x, window):
    sums = F.pad(x.cumsum(0), (1, 0))
    return (sums[window:] - sums[:-window]).max()


def advantages_from_behind(rewards, values, gamma, lam):
    deltas = rewards + gamma * F.pad(values[:, 1:], (0, 1)) - values
    last, rows = torch.zeros_like(deltas[:, 0]), []
    for t in range(deltas.shape[1] - 1, -1, -1):
        last = deltas[:, t] + gamma * lam * last
        rows.append(last)
    return torch.stack(rows[::-1], 1)


def segmented_sums(values, flags):
    # What stood before a segment is taken off: in double precision, as sums of all elements grow large.
    before = values.double().cumsum(0) - values
    firsts = torch.where(flags != 0, torch.arange(len(flags), device="cuda"), 0).cummax(0).values
    return (before - before[firsts]).float()


PEERS = {
    "prefix_sum": (lambda s: [uniform(-100, 100, s["N"])], lambda x: x.cumsum(0)),
    "linear_recurrence": (
        lambda s: [uniform(0, 1, s["B"], s["L"]), torch.randn(s["B"], s["L"], device="cuda")],
        linear_recurrence,
    ),
    "ssm_selective_scan": (
        lambda s: [
            torch.randn(s["batch"], s["seq_len"], s["d_model"], device="cuda"),
            uniform(0.01, 1.01, s["batch"], s["seq_len"], s["d_model"]),
            uniform(-1.01, -0.01, s["d_model"], s["d_state"]),
            torch.randn(s["batch"], s["seq_len"], s["d_state"], device="cuda"),
            torch.randn(s["batch"], s["seq_len"], s["d_state"], device="cuda"),
            uniform(0, 1, s["d_model"]),
        ],
        # A graph of thousands of steps takes the compiler many minutes.
        torch.compiler.disable(selective_scan),
    ),
    "max_subarray_sum": (lambda s: [ints(-10, 11, torch.int32, s["N"]), s["window_size"]], largest_window),
    "gae_reverse_scan": (
        lambda s: [*(torch.randn(s["B"], s["S"], device="cuda") for _ in "rv"), s["gamma"], s["lam"]],
        # A graph of thousands of steps takes the compiler many minutes.
        torch.compiler.disable(advantages_from_behind),
    ),
    "segmented_prefix_sum": (
        lambda s: [uniform(-1, 1, s["N"]), (torch.arange(s["N"], device="cuda") % 256 == 0).int()],
        segmented_sums,
    ),
}
