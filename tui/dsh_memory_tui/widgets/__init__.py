"""Widgets that draw by lines: what is not on the screen costs nothing."""
