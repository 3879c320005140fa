"""Records that predate front matter: their derived ids and the header that a migration gives them."""

from __future__ import annotations

from hashlib import sha256


def legacy_id(path: str) -> str:
    """Derive the stable id of a record without front matter from its path relative to the root."""
    # Names that are not UTF-8 arrive with their bytes as lone surrogates and count as those bytes.
    return "legacy-" + sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def generated_header(path: str, created: str, updated: str) -> bytes:
    """Build the header, blank line included, that migration puts before a legacy record's unchanged bytes.

    Dates are `YYYY-MM-DD`; the form is the contract's, byte for byte.
    """
    dates = f"created_at: {created}\nupdated_at: {updated}\n"
    return f"---\nschema_version: 1\nid: {legacy_id(path)}\n{dates}---\n\n".encode()
