"""Dialogs over the panes; each one closes with esc and does nothing by itself."""
