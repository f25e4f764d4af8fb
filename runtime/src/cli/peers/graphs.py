"""Graphs, clusters, agents."""

PEERS = {}
