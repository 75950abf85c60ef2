"""The `cute-py` command."""
