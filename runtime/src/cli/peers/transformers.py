"""Transformer blocks and layers around them."""

import math

import torch
import torch.nn.functional as F
from peers.inputs import normal, uniform


def heads_of(x, width):
    return x.unflatten(1, (-1, width)).transpose(0, 1)[None]


def joined(heads):
    return heads[0].transpose(0, 1).flatten(1)


def gpt2(x, weights, heads):
    d = x.shape[1]
    shapes = [(d,), (d,), (d, 3 * d), (3 * d,), (d, d), (d,), (d,), (d,), (d, 4 * d), (4 * d,), (4 * d, d), (d,)]
    parts = weights.split([math.prod(shape) for shape in shapes])
    scale1, shift1, qkv, qkv_bias, out, out_bias, scale2, shift2, up, up_bias, down, down_bias = (
        part.view(shape) for part, shape in zip(parts, shapes)
    )
    normed = F.layer_norm(x, (d,), scale1, shift1)
    q, k, v = (heads_of(part, d // heads) for part in torch.addmm(qkv_bias, normed, qkv).chunk(3, 1))
    x = x + torch.addmm(out_bias, joined(F.scaled_dot_product_attention(q, k, v)), out)
    wide = F.gelu(torch.addmm(up_bias, F.layer_norm(x, (d,), scale2, shift2), up), approximate="tanh")
    return x + torch.addmm(down_bias, wide, down)


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def llama(x, weights, cos, sin, of_keys, wide):
    d, width = x.shape[1], 2 * cos.shape[1]
    shapes = [(d,), (d + 2 * of_keys, d), (d, d), (d,), (wide, d), (wide, d), (d, wide)]
    parts = weights.split([math.prod(shape) for shape in shapes])
    scale1, qkv, out, scale2, gate, up, down = (part.view(shape) for part, shape in zip(parts, shapes))
    q, k, v = F.linear(F.rms_norm(x, (d,), scale1, 1e-5), qkv).split([d, of_keys, of_keys], 1)
    q, k = (turned(heads_of(part, width), cos, sin) for part in (q, k))
    seen = F.scaled_dot_product_attention(q, k, heads_of(v, width), is_causal=True, enable_gqa=True)
    x = x + F.linear(joined(seen), out)
    normed = F.rms_norm(x, (d,), scale2, 1e-5)
    return x + F.linear(F.silu(F.linear(normed, gate)) * F.linear(normed, up), down)


def llama_arguments(rows, d, width, of_keys, wide):
    angles = torch.arange(rows, device="cuda")[:, None] * 1e4 ** (-torch.arange(0, width, 2, device="cuda") / width)
    weights = normal(0.02, 2 * d * d + 2 * of_keys * d + 3 * wide * d + 2 * d)
    return [uniform(-1, 1, rows, d), weights, angles.cos(), angles.sin(), of_keys, wide]


def pair_norm(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def adder(prompts, weights):
    w = weights.unbind()
    turn = 2 * math.pi / 19
    sharpness = math.log(10) / (math.sqrt(2) * (math.cos(0.3 * turn) - math.cos(0.7 * turn))) / math.sqrt(2)
    positions = torch.arange(42, device=prompts.device) * turn
    cos, sin = positions.cos(), positions.sin()
    digits = torch.arange(10, device=prompts.device).float()
    embedding = torch.stack((w[0] - w[1] * digits.square(), -digits), 1)
    normed = pair_norm(embedding)
    lengths = normed[:, 0] * torch.rsqrt(normed[:, 0].square() / 2 + 1e-6)
    values = normed[:, 1] * w[4]
    queries = pair_norm(torch.stack((normed[:, 0] * w[2], normed[:, 0] * w[3]), 1)) * sharpness
    keys, seen, last, logits = lengths[prompts], values[prompts], prompts[:, -1], []
    for n in range(31, 42):
        query = queries[last]
        x = query[:, 0] * cos[n - 1] - query[:, 1] * sin[n - 1]
        y = query[:, 0] * sin[n - 1] + query[:, 1] * cos[n - 1]
        shares = torch.softmax(keys * (x[:, None] * cos[:n] + y[:, None] * sin[:n]), 1)
        own = embedding[last]
        h = torch.stack((own[:, 0], own[:, 1] + (shares * seen).sum(1)), 1)
        m = pair_norm(h)
        low, high = m[:, 0] * w[5] + m[:, 1] * w[6], m[:, 0] * (w[5] - w[6] / 1000) + m[:, 1] * w[6]
        h = torch.stack((h[:, 0], h[:, 1] + w[7] * m[:, 0] * (F.silu(high) - F.silu(low))), 1)
        logits.append((pair_norm(h) * weights[8:10]) @ embedding.t())
        last = logits[-1].argmax(1)
        keys = torch.cat((keys, lengths[last][:, None]), 1)
        seen = torch.cat((seen, values[last][:, None]), 1)
    return torch.stack(logits, 1)


def prompts(rows):
    first, second = (torch.randint(0, 10, (rows, 10), device="cuda") for _ in range(2))
    zeros = torch.zeros(rows, 9, device="cuda", dtype=torch.int64)
    return torch.cat((zeros[:, :1], first, zeros, second, zeros[:, :1]), 1)


ADDER_WEIGHTS = [1000.0, 0.1, -0.9652089102773487, 0.26147994095381993, -15347.0, -463.6, 5000.0, 10.1, 1.0, -20.05]

PEERS = {
    "gpt2_block": (lambda s: [uniform(-1, 1, s["seq_len"], 768), normal(0.02, 7_087_872), 12], gpt2),
    "gpt2_block_of_any_width": (
        lambda s: [uniform(-1, 1, s["seq_len"], s["d"]), normal(0.02, 12 * s["d"] ** 2 + 13 * s["d"]), s["heads"]],
        gpt2,
    ),
    "llama_transformer_block": (lambda s: llama_arguments(s["seq_len"], 512, 64, 128, 1408), llama),
    "narrow_llama_block": (lambda s: llama_arguments(s["seq_len"], 16, 4, 8, 20), llama),
    "adder_transformer": (lambda s: [prompts(s["batch_size"]), torch.tensor(ADDER_WEIGHTS, device="cuda")], adder),
}
