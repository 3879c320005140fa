"""The OpenAPI document, made from the table of endpoints: the same on every machine."""

from __future__ import annotations

import html
import json
import os
import re
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from dsh_memory.api import answers
from dsh_memory.api.endpoints import ENDPOINTS
from dsh_memory.api.operations import Endpoint

_REFERENCE: Final = "#/components/schemas/{model}"
_ERRORS: Final = {
    400: "The request cannot be carried out",
    401: "No token",
    403: "The token is unknown, inactive, or lacks the right",
    404: "No such memory",
    405: "This method is not allowed here",
    409: "What is stored contradicts the request",
    413: "Too large",
    429: "Too many calls",
    503: "The memory cannot be written or read now",
}


@cache
def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        shown = "/v1" + re.sub(r":path\}", "}", endpoint.path)
        paths.setdefault(shown, {})[endpoint.method.lower()] = _operation(endpoint)
    bodies = {each.body for each in ENDPOINTS if each.body is not None}
    results: set[type[BaseModel]] = {each.answer for each in ENDPOINTS}
    results |= {answers.ErrorAnswer, answers.HTTPValidationError}
    inputs = [(model, "validation") for model in sorted(bodies, key=lambda model: model.__name__)]
    outputs = [(model, "serialization") for model in sorted(results, key=lambda model: model.__name__)]
    _, schemas = models_json_schema([*inputs, *outputs], ref_template=_REFERENCE)  # type: ignore[list-item]
    return {
        "openapi": "3.1.0",
        "info": {"title": "dsh-memory", "version": "1", "description": "The memory API."},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"key": []}, {"bearer": []}],
    }


@cache
def docs_page() -> str:
    """The endpoints as a plain page, without scripts and without anything from elsewhere."""
    rows = "".join(
        f"<tr><td>{each.method}</td><td><code>/v1{html.escape(re.sub(':path', '', each.path))}</code></td>"
        f"<td>{html.escape(each.summary)}</td><td>{each.right}</td></tr>"
        for each in ENDPOINTS
    )
    return (
        "<!doctype html><meta charset=utf-8><title>dsh-memory API</title><h1>dsh-memory API</h1>"
        "<p>The whole contract: <a href=/openapi.json>/openapi.json</a></p><table>"
        f"<tr><th>Method</th><th>Path</th><th>What</th><th>Right</th></tr>{rows}</table>"
    )


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    success = {
        "description": endpoint.summary,
        "content": {"application/json": {"schema": _ref(endpoint.answer)}},
    }
    responses: dict[str, Any] = {str(endpoint.status): success}
    for status, text in _ERRORS.items():
        content = {"application/json": {"schema": _ref(answers.ErrorAnswer)}}
        responses[str(status)] = {"description": text, "content": content}
    validation = {"application/json": {"schema": _ref(answers.HTTPValidationError)}}
    responses["422"] = {"description": "Validation Error", "content": validation}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": dict(sorted(responses.items())),
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": endpoint.body_required,
            "content": {"application/json": {"schema": _ref(endpoint.body)}},
        }
    return operation


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)(?::path)?\}", endpoint.path)
    schema = {"type": "string", "minLength": 1}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    schema = endpoint.query.model_json_schema(ref_template=_REFERENCE)
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(each)}
        for name, each in schema["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query has no null: an absent key is all there is."""
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if not options:
        return schema
    kept = {key: value for key, value in schema.items() if key != "anyOf" and value is not None}
    return {**(options[0] if len(options) == 1 else {"anyOf": options}), **kept}


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=model.__name__)}


def text() -> str:
    """The document as it is committed beside this module."""
    return json.dumps(document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(__file__), "openapi.json"), "w", encoding="utf-8") as file:
        file.write(text())
