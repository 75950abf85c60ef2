"""Layouts as text, read from whatever printed them, and as tables."""
