"""Inputs as the challenges draw them, on the GPU.

The files beside this one hold PyTorch's versions of challenges, by class. Each has a dictionary PEERS:
  name -> (the arguments for sizes, the operation)
Sizes are a dictionary of the judge's scalars. In-place challenges change their argument; the others return a new tensor, so that eager
PyTorch needs no copy that a compiled kernel would not need. Tensors come in the order of the judge's inputs.
"""

import torch


def uniform(low, high, *shape):
    return torch.empty(*shape, device="cuda", dtype=torch.float32).uniform_(low, high)


def ints(low, high, dtype, *shape):
    return torch.randint(low, high, shape, device="cuda", dtype=dtype)


def normal(deviation, *shape):
    return deviation * torch.randn(*shape, device="cuda")


def sparse_dense(rows, cols, low, high):
    x = uniform(low, high, rows, cols)
    return x * (torch.rand_like(x) < 0.35)


def matrices(dtype, low, high, *shapes):
    if dtype == torch.int8:
        return [ints(-128, 128, torch.int8, *shape) for shape in shapes]
    return [uniform(low, high, *shape).to(dtype) for shape in shapes]


def eyes(rows, cols):
    return (torch.arange(rows).unsqueeze(1) % cols == torch.arange(cols)).float().cuda()
