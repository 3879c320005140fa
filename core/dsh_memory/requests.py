"""Pydantic models of the contract's requests: each is checked before the repository is opened; unknown keys are
ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    field_validator,
)

from dsh_memory.search.ranking import tokenize


def _integer(value: object) -> object:
    # JSON has one kind of number: 3.0 is 3.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _positive_or_absent(value: object) -> object:
    value = _integer(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


Scope = Literal["active", "archive", "all"]
LenientLimit = Annotated[int | None, BeforeValidator(_positive_or_absent)]


class Request(BaseModel):
    """What the requests share: unknown keys are ignored, values are not changed after the check."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class SetEnabledRequest(Request):
    enabled: StrictBool


class RunsRequest(Request):
    """`operation` and `status` are exact-match filters; what is no text matches no run."""

    limit: LenientLimit = None
    operation: Any = None
    status: Any = None


class MigrateLegacyRequest(Request):
    dry_run: StrictBool = Field(alias="dryRun")


class ClearRequest(Request):
    confirmation: Literal["DELETE_MEMORY"]


class RollbackRequest(Request):
    confirmation: Literal["ROLLBACK_MEMORY"]
    run_id: Any = Field(default=None, alias="runId")


class PreviewRequest(Request):
    preview_id: StrictStr = Field(alias="previewId", min_length=1)


class SearchRequest(Request):
    query: StrictStr
    limit: LenientLimit = None
    scope: Scope | None = None

    @field_validator("query")
    @classmethod
    def _has_tokens(cls, query: str) -> str:
        return _with_tokens(query)


class ContextRequest(Request):
    query: StrictStr | None = None
    limit: Annotated[StrictInt, BeforeValidator(_integer), Field(ge=1, le=20)] | None = None
    scope: Scope | None = None

    @field_validator("query")
    @classmethod
    def _has_tokens(cls, query: str | None) -> str | None:
        return None if query is None else _with_tokens(query)


def _with_tokens(query: str) -> str:
    if not tokenize(query):
        raise ValueError("the query holds no letter and no number")
    # Lone surrogates are no characters: no record can hold one, and no answer could be encoded.
    query.encode()
    return query
