"""Sorts, selections, sampling."""

import torch
from peers.inputs import ints, uniform


def sparse_rows(*shape):
    # As the judge draws them: 64 tokens of a row have a probability.
    weights = torch.rand(*shape, device="cuda")
    kept = torch.rand(*shape, device="cuda").topk(min(64, shape[-1]), -1).indices
    rows = torch.zeros_like(weights).scatter(-1, kept, weights.gather(-1, kept))
    return rows / rows.sum(-1, keepdim=True)


def verify(tokens, draft, target, uniform_samples):
    length, vocabulary = tokens.shape[1], draft.shape[2]
    index = tokens.long().unsqueeze(-1)
    p, q = target.gather(2, index).squeeze(-1), draft.gather(2, index).squeeze(-1)
    accepted = (uniform_samples[:, :length] < (p / q).clamp(max=1)).int().cumprod(1).sum(1, keepdim=True)
    row = accepted.clamp(max=length - 1).unsqueeze(-1).expand(-1, -1, vocabulary)
    p, q = target.gather(1, row).squeeze(1), draft.gather(1, row).squeeze(1)
    more = (p - q).clamp(min=0)
    total = more.sum(1, keepdim=True)
    more = torch.where(total > 0, more / total, 1.0 / vocabulary)
    weights = torch.where(accepted < length, more, p)
    chosen = (weights.cumsum(1) < uniform_samples[:, length:]).sum(1, keepdim=True).clamp(max=vocabulary - 1)
    places = torch.arange(length + 1, device="cuda")
    drafted = torch.cat([tokens, tokens[:, :1]], 1)
    return torch.where(places < accepted, drafted, torch.where(places == accepted, chosen.int(), 0))


def drafts(s):
    draft = sparse_rows(s["B"], s["T"], s["V"])
    tokens = draft.flatten(0, 1).multinomial(1).view(s["B"], s["T"]).int()
    return [tokens, draft, sparse_rows(s["B"], s["T"], s["V"]), torch.rand(s["B"], s["T"] + 1, device="cuda")]


def nucleus(logits, p):
    probabilities, order = logits.softmax(0).sort(descending=True)
    sums = probabilities.cumsum(0)
    kept = torch.where(sums - probabilities < p, probabilities, 0)
    return order[kept.multinomial(1)]


def kept_in_order(x):
    kept = x[x > 0]
    out = torch.zeros_like(x)
    out[: kept.numel()] = kept
    return out


def gates(logits, k):
    top = logits.topk(k, 1)
    return top.values.softmax(1), top.indices.int()


PEERS = {
    "sorting": (lambda s: [torch.rand(s["N"], device="cuda") * 2000 - 1000], lambda x: x.sort().values),
    # PyTorch sorts no unsigned numbers: signed ones stand for them.
    "radix_sort": (lambda s: [ints(-(2**31), 2**31, torch.int32, s["N"])], lambda x: x.sort().values),
    "top_k_selection": (
        lambda s: [(torch.rand(s["N"], device="cuda") * 2 - 1) * 1e6, s["k"]],
        lambda x, k: x.topk(k).values,
    ),
    "top_p_sampling": (lambda s: [3 * torch.randn(s["vocab_size"], device="cuda"), torch.full([1], 0.9, device="cuda")], nucleus),
    "speculative_decoding_verification": (drafts, verify),
    "stream_compaction": (lambda s: [uniform(-1, 1, s["N"])], kept_in_order),
    "parallel_merge": (
        lambda s: [uniform(-1, 1, s[n]).sort().values for n in "MN"],
        lambda a, b: torch.cat([a, b]).sort().values,
    ),
    "moe_topk_gating": (lambda s: [torch.randn(s["M"], s["E"], device="cuda"), s["k"]], gates),
}
