"""Transformer blocks and layers around them."""

PEERS = {}
