"""The shim is for the path of a subprocess (test_pycute.py); here it must not shadow pycute."""

collect_ignore = ["pycute"]
