"""The contract's request objects: each is checked before the repository is opened; unknown keys are ignored.

Plain functions: to load a library of models would cost a cold `search` more than the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from dsh_memory.search.ranking import tokenize

_SCOPES: Final = ("active", "archive", "all")
_CONTEXT_LIMITS: Final = range(1, 21)


class InvalidField(ValueError):
    """A request that does not fit; the message names the field and says what it has to be."""


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a request: its name there and in Python, what makes a value of what was given, and whether it may
    be left out (None stands for it then)."""

    key: str
    name: str
    check: Callable[[object], object]
    required: bool = False


def checked(fields: tuple[Field, ...], params: object) -> dict[str, object]:
    """The values of a request by Python name; raises InvalidField."""
    if not isinstance(params, Mapping):
        raise InvalidField("the request: an object is needed")
    values: dict[str, object] = {}
    for field in fields:
        if field.key not in params:
            if field.required:
                raise InvalidField(f"{field.key}: a value is needed")
            values[field.name] = None
            continue
        try:
            values[field.name] = field.check(params[field.key])
        except ValueError as error:
            raise InvalidField(f"{field.key}: {error}") from None
    return values


def _anything(value: object) -> object:
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is needed")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is needed")
    try:
        # Lone surrogates are no characters: no record can hold one, and no answer could be encoded.
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("the text holds half a character") from None
    return value


def _filled_text(value: object) -> str:
    if not (text := _text(value)):
        raise ValueError("a text is needed")
    return text


def _query(value: object) -> str:
    if not tokenize(text := _text(value)):
        raise ValueError("the query holds no letter and no number")
    return text


def _integer(value: object) -> int | None:
    """JSON has one kind of number: 3.0 is 3."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _lenient_limit(value: object) -> int | None:
    number = _integer(value)
    return number if number is not None and number > 0 else None


def _context_limit(value: object) -> int:
    number = _integer(value)
    if number is None or number not in _CONTEXT_LIMITS:
        raise ValueError(f"a whole number from {_CONTEXT_LIMITS[0]} to {_CONTEXT_LIMITS[-1]} is needed")
    return number


def _one_of(*choices: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{' or '.join(choices)} is needed")
        return value

    return check


def _or_none(check: Callable[[object], object]) -> Callable[[object], object]:
    return lambda value: None if value is None else check(value)


_SCOPE: Final = Field("scope", "scope", _or_none(_one_of(*_SCOPES)))

#: The fields of each request by the name that `contract.METHODS` knows it by. What is no text matches no run and is
#: no run's id, so that these are not checked here.
REQUESTS: Final[dict[str, tuple[Field, ...]]] = {
    "set_enabled": (Field("enabled", "enabled", _boolean, required=True),),
    "runs": (
        Field("limit", "limit", _lenient_limit),
        Field("operation", "operation", _anything),
        Field("status", "status", _anything),
    ),
    "migrate": (Field("dryRun", "dry_run", _boolean, required=True),),
    "clear": (Field("confirmation", "confirmation", _one_of("DELETE_MEMORY"), required=True),),
    "rollback": (
        Field("confirmation", "confirmation", _one_of("ROLLBACK_MEMORY"), required=True),
        Field("runId", "run_id", _anything),
    ),
    "preview": (Field("previewId", "preview_id", _filled_text, required=True),),
    "search": (
        Field("query", "query", _query, required=True),
        Field("limit", "limit", _lenient_limit),
        _SCOPE,
    ),
    "context": (
        Field("query", "query", _or_none(_query)),
        Field("limit", "limit", _or_none(_context_limit)),
        _SCOPE,
    ),
}
