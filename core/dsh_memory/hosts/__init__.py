"""Faces of the core for other programs: the DSH host over stdio, settings, the prompt section."""
