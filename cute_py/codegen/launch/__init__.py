"""Launches: check the arguments, prepare everything but the addresses, report faults."""
