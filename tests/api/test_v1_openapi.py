"""The committed OpenAPI document is the one that the table of endpoints makes, and the server keeps to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dsh_memory.api.openapi import document, text
from tests.api.serving import Served, serving
from tests.support.repositories import MemoryRepository

COMMITTED = Path(__file__).parent.parent.parent / "core" / "dsh_memory" / "api" / "openapi.json"
schema = schemathesis.openapi.from_dict(json.loads(COMMITTED.read_text(encoding="utf-8")))


def test_the_committed_document_is_current() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == text(), "write it anew: python -m dsh_memory.api.openapi"


def test_every_answer_is_declared() -> None:
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                declared = response["content"]["application/json"]["schema"]
                assert "$ref" in declared, (path, method, status)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    memory = MemoryRepository.create(tmp_path_factory.mktemp("openapi") / "memory")
    with serving(memory) as running:
        yield running


@pytest.fixture(autouse=True)
def isolated() -> None:
    """The module's server keeps its state folder; nothing here reads a home."""


@pytest.fixture(scope="module")
def token(served: Served) -> str:
    return served.token()


@pytest.mark.slow
@schema.parametrize()
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
    ],
)
def test_no_500_and_no_undeclared_shape(case: schemathesis.Case, served: Served, token: str) -> None:
    case.headers = {**dict(case.headers or {}), "X-API-Key": token}
    response = case.call(base_url=served.url)
    assert response.status_code < 500, response.text
    case.validate_response(
        response,
        checks=[
            schemathesis.checks.not_a_server_error,
            status_code_conformance,
            response_schema_conformance,
            content_type_conformance,
        ],
    )
