"""Turning session logs into memory: an agent works on a private copy, and what it wrote is checked before
it counts.
"""
