"""Sorts, selections, sampling."""

PEERS = {}
