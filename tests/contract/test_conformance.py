"""Every call of the conformance vectors, in process and over stdio; where they came from: tests/data/README.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dsh_memory import METHODS, MemoryService
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, build_conformance_fixture

VECTORS = json.loads((Path(__file__).parent.parent / "data/conformance/vectors.json").read_text("utf-8"))


@pytest.fixture(params=VECTORS, ids=lambda fixture: fixture["name"])
def vector(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def built(vector: Any, tmp_path: Path) -> MemoryRepository:
    return build_conformance_fixture(tmp_path / "dsh" / "storages" / "memory", vector)


def check(call: dict[str, Any], answer: dict[str, Any]) -> None:
    shown = f"{call['method']} {json.dumps(call['params'])}"
    if "hits" in call:
        value = answer["value"]
        hits = [(result["path"], result["score"]) for result in value["results"]]
        scores = [score for _, score in hits]
        assert value["count"] == call["count"], shown
        assert scores == sorted(scores, reverse=True), shown
        limit = call["params"].get("limit", 20)
        expected = [(path, score) for path, score in call["hits"]]
        if len(expected) <= limit:
            assert sorted(hits) == sorted(expected), shown
        else:
            assert set(hits) <= set(expected) and len(hits) == limit, shown
        return
    expected = call["result"]
    assert answer["ok"] is expected["ok"], (shown, answer)
    if not expected["ok"]:
        assert answer["error"]["code"] == expected["error"]["code"], shown
        assert answer["error"]["code"] in METHODS[call["method"]].all_codes
        return
    for key, value in expected["value"].items():
        assert answer["value"][key] == value, (shown, key)
    METHODS[call["method"]].value_model().model_validate(answer["value"])


def test_in_process(vector: Any, built: MemoryRepository, clock: FrozenClock) -> None:
    service = MemoryService(built.environment, clock=clock)
    for call in vector["calls"]:
        check(call, dict(service.call(call["method"], call["params"])))


def test_over_stdio(vector: Any, built: MemoryRepository) -> None:
    frames = [
        {"jsonrpc": "2.0", "id": number, "method": call["method"], "params": call["params"]}
        for number, call in enumerate(vector["calls"])
    ]
    done = subprocess.run(
        [sys.executable, "-m", "dsh_memory", "--root", built.environment.memory_root, "serve", "--stdio"],
        input="".join(json.dumps(frame) + "\n" for frame in frames).encode(),
        capture_output=True,
        timeout=120,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr.decode()
    ready, *replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert ready["method"] == "ready"
    answers = {reply["id"]: reply["result"] for reply in replies}
    assert len(answers) == len(frames)
    for number, call in enumerate(vector["calls"]):
        check(call, answers[number])
