"""`dsh-memory mcp`: the memory API's tools for one MCP client on standard input and output."""

from __future__ import annotations

from dsh_memory.cli.invocation import Invocation
from dsh_memory.cli.output import DONE


def serve_mcp(call: Invocation) -> int:
    """`mcp`"""
    from dsh_memory.api.mcp import serve_stdio
    from dsh_memory.api.store import MemoryStore

    store = MemoryStore(call.environment)
    try:
        serve_stdio(store)
    finally:
        store.close()
    return DONE
