"""Fourier transforms."""

PEERS = {}
