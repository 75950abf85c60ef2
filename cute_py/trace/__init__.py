"""The kernel DSL: tracing a Python function to a plan."""
