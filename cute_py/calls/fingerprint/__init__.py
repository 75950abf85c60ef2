"""The fingerprint of a call: what its plan depends on beside its arrays, found and watched."""
