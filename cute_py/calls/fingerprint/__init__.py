"""The fingerprint of a call: what its plan depends on besides its arrays, found and watched."""
