"""Integers that may be symbols: their protocol, normal form, bounds, proofs, text and code."""
