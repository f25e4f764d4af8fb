"""Attentions."""

PEERS = {}
