from __future__ import annotations
def add_commands(commands):
    pass
