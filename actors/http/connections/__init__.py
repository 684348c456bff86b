"""Connections of HTTP: what they may send, and how answers are written."""
