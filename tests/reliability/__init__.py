"""Proof that a change of memory loses nothing, whatever happens in the middle."""
