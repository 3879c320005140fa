"""The two agent tools: the contract's read methods, answered as the JSON string that a model reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsh_memory.contract import AGENT_TOOLS

if TYPE_CHECKING:
    from dsh_memory.service import MemoryService

_PARAMETERS = {"memory_search": ("query", "limit"), "memory_context": ("query", "limit", "scope")}
# guard: tool-public-keys (nothing of root, Git, journal or sidecar reaches a model)
_PUBLIC_KEYS = ("query", "count", "results", "records", "skipped")


def answer_tool(service: MemoryService, tool: str, arguments: Mapping[str, object]) -> str:
    """The JSON string that `tool` gives to the model: the method's value, or `{"error": code}`.

    Unknown arguments are ignored; null counts as absent, since models write it for what they leave out.
    """
    given = {name: arguments[name] for name in _PARAMETERS[tool] if arguments.get(name) is not None}
    envelope = service.call(AGENT_TOOLS[tool], given)
    if envelope["ok"]:
        value = envelope["value"]
        return _text({key: value[key] for key in _PUBLIC_KEYS if key in value})
    return _text({"error": envelope["error"]["code"]})


def _text(value: dict[str, object]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate (a file name that is not UTF-8) is no text that a model can be sent.
        return json.dumps(value, separators=(",", ":"))
    return text
