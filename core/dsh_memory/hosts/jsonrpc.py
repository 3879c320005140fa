"""JSON-RPC 2.0, one object a line: what a line asks for, and the lines that answer it (`spec`: dsh-host)."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import NoReturn

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603

_MESSAGES = {
    PARSE_ERROR: "Parse error",
    INVALID_REQUEST: "Invalid Request",
    METHOD_NOT_FOUND: "Method not found",
    INTERNAL_ERROR: "Internal error",
}

Id = str | int | float


@dataclass(frozen=True, slots=True)
class Call:
    """One request; `id` is None for a notification, which gets no answer."""

    method: str
    params: dict[str, object]
    id: Id | None


class BadFrame(Exception):
    """A line that is no request: the JSON-RPC code, and the id to answer where the line has a usable one."""

    def __init__(self, code: int, id: Id | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.id = id


class BadJson(ValueError):
    """Text that is not strict JSON; `unrepeated` is its value less the keys that stand twice, if some do."""

    def __init__(self, message: str, *, unrepeated: object = None) -> None:
        super().__init__(message)
        self.unrepeated = unrepeated


def strict_json(text: str | bytes) -> object:
    """The value of a JSON text; raises BadJson.

    Refused beyond the grammar: NaN, numbers too large for a float, a key that stands twice, bytes that are
    not UTF-8.
    """
    repeats = False

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal repeats
        value = dict(items)
        if len(value) == len(items):
            return value
        repeats = True
        counts = Counter(key for key, _ in items)
        return {key: item for key, item in items if counts[key] == 1}

    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        value: object = json.loads(
            decoded, object_pairs_hook=pairs, parse_constant=_no_number, parse_float=_finite
        )
    except RecursionError:
        raise BadJson("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadJson(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError:
        raise BadJson("it is not UTF-8") from None
    except ValueError as error:
        raise BadJson(str(error)) from None
    # guard: json-repeated-key (two readers of one line must not see two different requests)
    if repeats:
        raise BadJson("a key stands twice in an object", unrepeated=value)
    return value


def read_call(line: bytes) -> Call | None:
    """What one line asks for; raises BadFrame.

    None for a notification whose params are no object: it gets no answer, not even that it is a bad one.
    """
    try:
        message = strict_json(line)
    except BadJson as error:
        if error.unrepeated is None:
            raise BadFrame(PARSE_ERROR) from None
        raise BadFrame(INVALID_REQUEST, _usable_id(error.unrepeated)) from None
    if not isinstance(message, dict):
        raise BadFrame(INVALID_REQUEST)
    identity = _usable_id(message)
    method, params = message.get("method"), message.get("params", {})
    if (
        message.get("jsonrpc") != "2.0"
        or not isinstance(method, str)
        or ("id" in message and identity is None)
    ):
        raise BadFrame(INVALID_REQUEST, identity)
    if not isinstance(params, dict):
        if identity is None:
            return None
        raise BadFrame(INVALID_REQUEST, identity)
    return Call(method, params, identity)


def result_line(id: Id, result: object) -> bytes:
    """The line that answers with a result; raises ValueError or TypeError for what is no JSON value."""
    return _line({"jsonrpc": "2.0", "id": id, "result": result})


def error_line(id: Id | None, code: int) -> bytes:
    """The line that answers with one of the four JSON-RPC errors."""
    return _line({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": _MESSAGES[code]}})


def notification_line(method: str, params: dict[str, object]) -> bytes:
    """A line that asks for no answer."""
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def _line(message: dict[str, object]) -> bytes:
    # ASCII: lone surrogates, line separators and terminal controls stay escaped.
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def _usable_id(message: object) -> Id | None:
    identity = message.get("id") if isinstance(message, dict) else None
    return identity if isinstance(identity, str | int | float) and not isinstance(identity, bool) else None


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number
