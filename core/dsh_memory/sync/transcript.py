"""A session log as Markdown for the consolidating agent: short, redacted, and impossible to forge from
within.

Limits and rules: `spec` dsh-host, Session logs, and repository, Redaction of transcripts. Every line of
foreign text stands behind `> `, so that no message can pose as a heading or as another speaker.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from dsh_memory.sync.redaction import redact, redact_text
from dsh_memory.text import visible

ARGUMENT_CHARACTERS: Final = 200
RESULT_CHARACTERS: Final = 400
MESSAGE_CHARACTERS: Final = 2000
METADATA_CHARACTERS: Final = 400

_INJECTED: Final = ("<system-reminder>", "Current runtime context.")
# Redaction comes before truncation; no more of a text than this can reach the few characters that are shown.
_REDACTED_CHARACTERS: Final = 256 * 1024
_DEEPEST: Final = 16


def transcript(events: Iterable[dict[str, object]]) -> Iterator[str]:
    """The paragraphs of a transcript, each ending in a blank line."""
    title = ""
    for event in events:
        kind, data = event.get("type"), event.get("data")
        if kind == "session":
            yield _heading(event)
            continue
        if not isinstance(data, dict):
            continue
        if kind == "session/title":
            told = _one_line(data.get("title"), METADATA_CHARACTERS)
            if told and told != title:
                title = told
                yield f"Title: {title}\n\n"
        elif kind == "turn/start":
            yield f"## Turn {_number(data.get('turn'))}\n\n"
        elif kind == "user/message":
            yield from _message("User", data.get("content"))
        elif kind == "assistant/message":
            message = data.get("message")
            yield from _message("Assistant", message.get("content") if isinstance(message, dict) else None)
        elif kind == "tool/call":
            name = _one_line(data.get("name"), METADATA_CHARACTERS) or "unnamed"
            yield f"Tool call {name}:\n{_quoted(_arguments(data.get('arguments')), ARGUMENT_CHARACTERS)}\n"
        elif kind == "tool/result":
            text = "\n".join(_texts(data.get("message")))
            if text.strip():
                yield f"Tool result:\n{_quoted(text, RESULT_CHARACTERS)}\n"


def _heading(event: dict[str, object]) -> str:
    lines = [f"# Session {_one_line(event.get('id'), METADATA_CHARACTERS) or 'without an id'}", ""]
    created = event.get("createdAt")
    if isinstance(created, int) and not isinstance(created, bool) and 0 <= created < 10**14:
        lines.append(f"- created: {datetime.fromtimestamp(created / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}")
    for name, key in (("folder", "cwd"), ("preset", "agentPreset")):
        value = _one_line(event.get(key), METADATA_CHARACTERS)
        if value:
            lines.append(f"- {name}: {value}")
    return "\n".join(lines).rstrip("\n") + "\n\n"


def _message(speaker: str, content: object) -> Iterator[str]:
    if not isinstance(content, list):
        return
    texts = [
        item["text"]
        for item in content
        if isinstance(item, dict) and item.get("type") == "text" and isinstance(item.get("text"), str)
    ]
    text = "\n".join(text for text in texts if not text.lstrip().startswith(_INJECTED))
    if text.strip():
        yield f"{speaker}:\n{_quoted(text, MESSAGE_CHARACTERS)}\n"


def _arguments(arguments: object) -> str:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return str(arguments)
    return json.dumps(redact(arguments), ensure_ascii=False, separators=(",", ":"))


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    """The `text` fields of nested content, in order."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in value:
            yield from _texts(item, depth + 1)
    elif isinstance(value, dict):
        text = value.get("text")
        if isinstance(text, str):
            yield text
        yield from _texts(value.get("content"), depth + 1)


def _quoted(text: str, limit: int) -> str:
    shown = _short(text, limit, keep_newlines=True)
    return "".join(f"> {line}\n" for line in shown.split("\n"))


def _one_line(value: object, limit: int) -> str:
    if not isinstance(value, str):
        return ""
    return _short(" ".join(value.split()), limit, keep_newlines=False)


def _short(text: str, limit: int, *, keep_newlines: bool) -> str:
    text = text.strip()
    redacted = redact_text(text[:_REDACTED_CHARACTERS])
    shown = visible(redacted[:limit], keep_newlines=keep_newlines)
    return f"{shown}… [cut from {len(text)} characters]" if len(redacted) > limit else shown


def _number(value: object) -> str:
    # Turn 0 is a turn.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else "?"
