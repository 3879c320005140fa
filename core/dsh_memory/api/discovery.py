"""What a client may learn before it has a token."""

from __future__ import annotations

from typing import Any, Final

SERVICE: Final = "memory-os"


def description() -> dict[str, Any]:
    """The service, its doors and how to be let in; no token, count or path is in it."""
    return {
        "service": SERVICE,
        "name": "dsh-memory",
        "api": {"base_path": "/v1", "aliases": ["/api/v1"], "openapi": "/openapi.json"},
        "mcp": {"endpoint": "/mcp", "transport": "streamable-http", "stateless": True},
        "auth": {
            "schemes": ["X-API-Key", "Bearer"],
            "token_in_discovery": False,
            "scopes": ["memory:read", "memory:write", "memory:restore", "memory:delete"],
        },
        "security": {"no_remote_code_execution": True, "token_in_discovery": False},
    }
