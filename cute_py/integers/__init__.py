"""Integers that may be symbols: their protocol, normal form, bounds, decisions, proofs and text."""
