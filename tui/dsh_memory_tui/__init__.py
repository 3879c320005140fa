"""The Textual terminal UI over the core of dsh-memory."""
