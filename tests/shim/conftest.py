"""The shim is put on the path of a subprocess by test_pycute.py; it must not shadow the real pycute here."""

collect_ignore = ["pycute"]
