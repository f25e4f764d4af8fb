"""Graphs, clusters, agents."""

import torch
import torch.nn.functional as F
from peers.inputs import ints, uniform


def flock(agents):
    place, velocity = agents[:, :2], agents[:, 2:]
    x, y = place[:, 0], place[:, 1]
    near = ((x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 < 25.0).float()
    near.fill_diagonal_(0)
    count = near.sum(1, keepdim=True)
    mean = torch.where(count > 0, near @ velocity / count.clamp(min=1), velocity)
    velocity = velocity + 0.05 * (mean - velocity)
    return torch.cat([place + velocity, velocity], 1)


def lloyd(x, y, cx, cy, rounds):
    for _ in range(rounds):
        labels = ((x[:, None] - cx) ** 2 + (y[:, None] - cy) ** 2).argmin(1)
        own = F.one_hot(labels, cx.shape[0]).float()
        members = own.sum(0)
        cx = torch.where(members > 0, x @ own / members.clamp(min=1), cx)
        cy = torch.where(members > 0, y @ own / members.clamp(min=1), cy)
    return labels, cx, cy


def floyd_warshall(dist):
    paths = dist.clone()
    for k in range(dist.shape[0]):
        torch.minimum(paths, paths[:, k : k + 1] + paths[k], out=paths)
    return paths


def edges(n):
    there = torch.rand(n, n, device="cuda") < 0.3
    dist = torch.where(there, uniform(0.1, 10.1, n, n), torch.inf)
    return dist.fill_diagonal_(0)


def maze(rows, cols):
    # As the judge draws it: ten columns and the far corner are free.
    grid = ints(0, 2, torch.int32, rows, cols)
    grid[:, :10] = 0
    grid[-1, -1] = 0
    return grid


def fewest_moves(grid, start_row, start_col, end_row, end_col):
    unseen = F.pad(grid == 0, (1, 1, 1, 1))
    frontier = torch.zeros_like(unseen)
    frontier[start_row + 1, start_col + 1] = True
    unseen[start_row + 1, start_col + 1] = False
    moves = 0
    while not frontier[end_row + 1, end_col + 1]:
        if not frontier.any():
            return torch.tensor([-1])
        beside = frontier.roll(1, 0) | frontier.roll(-1, 0) | frontier.roll(1, 1) | frontier.roll(-1, 1)
        frontier = beside & unseen
        unseen = unseen & ~frontier
        moves += 1
    return torch.tensor([moves])


PEERS = {
    # Hundreds of steps, each of which asks whether it was the last.
    "bfs_shortest_path": (
        lambda s: [maze(s["rows"], s["cols"]), s["start_row"], s["start_col"], s["end_row"], s["end_col"]],
        torch.compiler.disable(fewest_moves),
    ),
    "multi_agent_sim": (lambda s: [uniform(-1000, 1000, s["N"], 4)], flock),
    "kmeans_clustering": (
        lambda s: [
            uniform(0, 1000, s["sample_size"]),
            uniform(0, 1000, s["sample_size"]),
            100.0 * torch.arange(1, s["k"] + 1, device="cuda"),
            100.0 * torch.arange(1, s["k"] + 1, device="cuda"),
            s["max_iterations"],
        ],
        lloyd,
    ),
    # A graph of thousands of steps takes the compiler many minutes.
    "all_pairs_shortest_paths": (lambda s: [edges(s["N"])], torch.compiler.disable(floyd_warshall)),
}
