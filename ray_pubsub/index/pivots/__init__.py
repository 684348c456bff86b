"""Adapts pivots to the stream: what events carry, when that has changed, and which blocks are rebuilt for it."""
