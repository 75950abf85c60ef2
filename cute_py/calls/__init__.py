"""Calls of kernels: arguments, fingerprints, and the cache of prepared launches."""
