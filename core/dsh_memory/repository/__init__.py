"""Reading and changing the memory repository on disk."""
