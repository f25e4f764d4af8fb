"""Products of matrices and vectors, and what is solved by them."""

import functools

import torch
import torch.nn.functional as F
from peers.inputs import eyes, ints, matrices, normal, sparse_dense, uniform


def int4_product(x, packed, scales, group):
    nibbles = torch.stack([packed >> 4, packed & 15], -1).flatten(1)
    weights = (nibbles.to(torch.float16) - 8) * scales.repeat_interleave(group, 1)
    return x @ weights.t()


def tf32_product(a, b):
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return a @ b
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def whole_sums(a, b):
    # Without an output type of its own cuBLAS would round the sums to the operands' type.
    return torch.mm(a, b, out_dtype=torch.float32)


def lower_precision(dtype, multiply, layout):
    """A free-standing product: T is for operands that lie the other way round."""

    def make(s):
        a, b = (s["M"], s["K"]), (s["K"], s["N"])
        return matrices(dtype, -1, 1, a[::-1] if layout[0] == "t" else a, b[::-1] if layout[1] == "t" else b)

    def operation(a, b):
        return multiply(a.t() if layout[0] == "t" else a, b.t() if layout[1] == "t" else b)

    return make, operation


# torch's formats of 8 bits.
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def float8_inputs(of_a, scales):
    """Both operands along the axis of the sum, and what scales there are."""

    def make(s):
        (a,) = matrices(of_a, -1, 1, (s["M"], s["K"]))
        (b,) = matrices(E4M3, -1, 1, (s["N"], s["K"]))
        return [a, b, *scales(s)]

    return make


def whole_scales(s):
    return [float(s[f"scale_{x}"]) for x in "AB"]


@functools.cache
def on_gpu(scale):
    return torch.full((1,), scale, device="cuda")


def float8_product(out):
    # Fast accumulation: sums are those of the matrix unit, as ours are. Numbers are copied to the GPU once, not in each call.
    def operation(a, b, scale_a, scale_b):
        scale_a, scale_b = (x if torch.is_tensor(x) else on_gpu(x) for x in (scale_a, scale_b))
        return torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=out, use_fast_accum=True)

    return operation


def float8_rows(a, b, scales_a, scales_b):
    return float8_product(torch.bfloat16)(a, b, scales_a.unsqueeze(1), scales_b.unsqueeze(0))


def float8_blocks(a, b, scales_a, scales_b):
    return torch._scaled_mm(a, b.t(), scale_a=scales_a.t(), scale_b=scales_b, out_dtype=torch.bfloat16)


def requantised(a, b, scale_a, scale_b, scale_c, zero_a, zero_b, zero_c):
    # The integer product is exact in neither of torch's float types; `_int_mm` knows no zero points.
    product = torch._int_mm(a, b) if zero_a == zero_b == 0 else (a.double() - zero_a) @ (b.double() - zero_b)
    return (torch.round(product.float() * scale_a * scale_b / scale_c) + zero_c).clamp(-128, 127).to(torch.int8)


def least_squares(x, y):
    factor = torch.linalg.cholesky(x.T @ x)
    return torch.cholesky_solve((x.T @ y).unsqueeze(1), factor).squeeze(1)


def logistic(x, y, steps):
    beta = torch.zeros_like(x[0])
    ridge = 1e-6 * torch.eye(x.shape[1], device=x.device)
    for _ in range(steps):
        p = torch.sigmoid(x @ beta)
        w = (p * (1 - p)).clamp(min=1e-8)
        hessian = x.T @ (w.unsqueeze(1) * x) + ridge
        beta = beta - torch.linalg.solve(hessian, x.T @ (p - y) + 1e-6 * beta)
    return beta


PEERS = {
    "matrix_multiplication": (lambda s: matrices(torch.float32, -10, 10, (s["M"], s["N"]), (s["N"], s["K"])), torch.mm),
    "batched_matrix_multiplication": (
        lambda s: matrices(torch.float32, -10, 10, (s["BATCH"], s["M"], s["K"]), (s["BATCH"], s["K"], s["N"])),
        torch.bmm,
    ),
    "fp16_batched_matmul": (
        lambda s: matrices(torch.float16, -5, 5, (s["BATCH"], s["M"], s["K"]), (s["BATCH"], s["K"], s["N"])),
        torch.bmm,
    ),
    "gemm": (
        lambda s: [*matrices(torch.float16, -1, 1, (s["M"], s["K"]), (s["K"], s["N"]), (s["M"], s["N"])), s["alpha"], s["beta"]],
        lambda a, b, c, alpha, beta: torch.addmm(c, a, b, beta=beta, alpha=alpha),
    ),
    "int8_quantized_matmul": (
        lambda s: [
            *matrices(torch.int8, 0, 0, (s["M"], s["K"]), (s["K"], s["N"])),
            *(float(s[f"scale_{x}"]) for x in "ABC"),
            *(s[f"zero_point_{x}"] for x in "ABC"),
        ],
        requantised,
    ),
    "matrix_power": (
        lambda s: [*matrices(torch.float32, -10, 10, (s["N"], s["N"])), s["P"]],
        torch.linalg.matrix_power,
    ),
    "sparse_matrix_vector_multiplication": (
        lambda s: [sparse_dense(s["M"], s["N"], -10, 10), uniform(-5, 5, s["N"])],
        lambda a, x: a @ x,
    ),
    "sparse_matrix_dense_matrix_multiplication": (
        lambda s: [sparse_dense(s["M"], s["N"], -1, 1), uniform(-1, 1, s["N"], s["K"])],
        torch.mm,
    ),
    "simple_inference": (
        lambda s: [
            normal(1, s["batch"], s["in_features"]),
            normal(0.1, s["out_features"], s["in_features"]),
            normal(0.05, s["out_features"]),
        ],
        F.linear,
    ),
    "lora_linear": (
        lambda s: [
            normal(1, s["batch"], s["d_in"]),
            normal(0.02, s["d_out"], s["d_in"]),
            normal(0.02, s["rank"], s["d_in"]),
            normal(0.5, s["d_out"], s["rank"]),
            s["lora_scale"],
        ],
        lambda x, w, a, b, scale: torch.addmm(F.linear(x, w), F.linear(x, a), b.t(), alpha=scale),
    ),
    "swiglu_mlp_block": (
        lambda s: [
            normal(0.1, s["M"], s["d_model"]),
            *(normal(0.02, s["d_model"], s["d_ffn"]) for _ in "ab"),
            normal(0.02, s["d_ffn"], s["d_model"]),
        ],
        lambda x, gate, up, down: (F.silu(x @ gate) * (x @ up)) @ down,
    ),
    "int4_matmul": (
        lambda s: [
            normal(1, s["M"], s["K"]).half(),
            ints(0, 256, torch.uint8, s["N"], s["K"] // 2),
            uniform(0.01, 0.11, s["N"], s["K"] // s["group_size"]).half(),
            s["group_size"],
        ],
        int4_product,
    ),
    **{
        f"gemm_{name}_{layout}": lower_precision(dtype, multiply, layout)
        for layout in ("nn", "nt", "tn")
        for name, dtype, multiply in (
            ("f16_f32", torch.float16, whole_sums),
            ("f16", torch.float16, torch.mm),
            ("bf16_f32", torch.bfloat16, whole_sums),
            ("bf16", torch.bfloat16, torch.mm),
            ("tf32", torch.float32, tf32_product),
            ("int8", torch.int8, torch._int_mm),
        )
    },
    "gemm_f8e4m3_nt": (float8_inputs(E4M3, whole_scales), float8_product(torch.bfloat16)),
    "gemm_f8e4m3_f16_nt": (float8_inputs(E4M3, whole_scales), float8_product(torch.float16)),
    "gemm_f8e5m2_nt": (float8_inputs(E5M2, whole_scales), float8_product(torch.bfloat16)),
    "gemm_f8e4m3_rows_nt": (
        float8_inputs(E4M3, lambda s: [uniform(0.5, 2, s["M"]), uniform(0.5, 2, s["N"])]),
        float8_rows,
    ),
    "gemm_f8e4m3_blocks_nt": (
        float8_inputs(E4M3, lambda s: [uniform(0.5, 2, -(-s["K"] // 128), s[x]) for x in "MN"]),
        float8_blocks,
    ),
    "ordinary_least_squares": (
        lambda s: [eyes(s["n_samples"], s["n_features"]), torch.ones(s["n_samples"], device="cuda")],
        least_squares,
    ),
    # As many Newton steps as this input takes in f32; asking after each whether to go on would cost PyTorch more.
    "logistic_regression": (
        lambda s: [
            eyes(s["n_samples"], s["n_features"]),
            (torch.arange(s["n_samples"], device="cuda") % 2).float(),
            16,
        ],
        logistic,
    ),
}
