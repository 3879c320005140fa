"""What the memory API refuses, as values: every door turns them into its own form."""

from __future__ import annotations

from typing import Any


class ApiFailure(Exception):
    """A refusal with its HTTP status and stable code; the message quotes nothing that is not the caller's."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}


class InvalidField(ApiFailure):
    """A value that the contract does not allow, named by its place in the request."""

    def __init__(self, loc: tuple[str | int, ...], message: str, kind: str = "value_error") -> None:
        super().__init__(422, "invalid_request", message)
        self.loc = loc
        self.kind = kind

    @property
    def detail(self) -> list[dict[str, Any]]:
        """The contract's validation detail."""
        return [{"loc": list(self.loc), "msg": self.message, "type": self.kind}]


def not_found(what: str = "memory") -> ApiFailure:
    """Nothing of this id, or nothing that the caller may see."""
    return ApiFailure(404, "not_found", f"No such {what}.")


def conflict(message: str) -> ApiFailure:
    """The request and what is stored contradict each other."""
    return ApiFailure(409, "conflict", message)
