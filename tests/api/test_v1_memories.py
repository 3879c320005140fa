"""The life of a memory over REST: defaults, statuses, filters, versions, deletion, and what is refused."""

from __future__ import annotations

import json
import socket
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dsh_memory.api.limits import RateLimits
from dsh_memory.environment import Environment
from dsh_memory.service import MemoryService
from tests.api.serving import Served, serving
from tests.support.repositories import MemoryRepository, record


@pytest.fixture
def served(memory: MemoryRepository) -> Iterator[Served]:
    with serving(memory) as running:
        yield running


@pytest.fixture
def client(served: Served) -> httpx.Client:
    return served.client()


def remember(client: httpx.Client, content: str = "We deploy on Tuesdays.", **more: Any) -> str:
    answer = client.post("/v1/remember", json={"content": content, "path": "projects/alpha", **more})
    assert answer.status_code == 201, answer.text
    assert answer.json().keys() == {"id", "status"} and answer.json()["status"] == "remembered"
    return str(answer.json()["id"])


def found(client: httpx.Client, query: str, **filters: Any) -> list[str]:
    answer = client.get("/v1/memories/search", params={"query": query, **filters})
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["results"]]


def test_one_memory_is_one_file_and_one_commit(client: httpx.Client, memory: MemoryRepository) -> None:
    before = memory.head
    content = "---\nlooks like a fence\r\n\r\n  trailing spaces  \n\ttab é 漢字 🤭\n\n"
    memory_id = remember(client, content)
    assert memory.git("rev-list", "--count", f"{before}..HEAD") == b"1\n"
    [file] = memory.root.rglob(f"{memory_id}.md")
    assert file.read_bytes().endswith(b"---\n" + content.encode())
    assert client.get(f"/v1/memories/{memory_id}").json()["content"] == content
    message = memory.git("log", "-1", "--format=%B").decode()
    assert f"Memory-Id: {memory_id}" in message and "fence" not in message
    assert memory.git("status", "--porcelain") == b""
    assert oct(file.stat().st_mode & 0o777) == "0o600"


def test_both_prefixes_and_every_header(client: httpx.Client) -> None:
    memory_id = remember(client)
    for prefix in ("/v1", "/api/v1"):
        answer = client.get(f"{prefix}/recall", params={"query": "deploying"})
        assert [each["id"] for each in answer.json()["results"]] == [memory_id]
        assert answer.headers["cache-control"] == "no-store, private"
        assert answer.headers["content-type"] == "application/json"


def test_store_always_creates_with_its_own_defaults(client: httpx.Client) -> None:
    ids = [client.post("/v1/memories", json={"content": "same", "path": "p"}).json()["id"] for _ in range(2)]
    assert len(set(ids)) == 2
    value = client.get(f"/v1/memories/{ids[0]}").json()
    defaults = {"memory_type": "semantic", "importance": 0.5, "confidence": 1.0, "bucket": "public"}
    assert {key: value[key] for key in defaults} == defaults


def test_dedupe_and_semantic_keys(client: httpx.Client, memory: MemoryRepository) -> None:
    first = remember(client, "same text")
    head = memory.head
    assert remember(client, "same text") == first and memory.head == head
    assert remember(client, "same text", bucket="other") != first
    assert remember(client, "same text", dedupe=False) != first
    one = remember(client, "prefers tea", semantic_key="drink")
    assert remember(client, "prefers coffee", semantic_key="drink") == one
    assert remember(client, "prefers water", semantic_key="drink", scope="s") != one
    versions = client.get(f"/v1/memories/{one}/versions").json()["versions"]
    assert [(each["version"], each["content"]) for each in versions] == [
        (2, "prefers coffee"),
        (1, "prefers tea"),
    ]


def test_client_ids(client: httpx.Client) -> None:
    assert remember(client, "mine", memory_id="project/codegen") == "project/codegen"
    assert remember(client, "mine", memory_id="project/codegen") == "project/codegen"
    taken = client.post("/v1/remember", json={"content": "x", "path": "p", "memory_id": "project/codegen"})
    assert taken.status_code == 409 and taken.json()["error"]["code"] == "conflict"
    for wrong in ("A", "a//b", "../x", "a/b/c", "x" * 129, "é"):
        refused = client.post("/v1/remember", json={"content": "x", "path": "p", "memory_id": wrong})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_memory_id"), wrong
    assert client.get("/v1/memories/project%2Fcodegen").json()["content"] == "mine"
    # Only the exact id: a prefix deletes nothing.
    assert client.delete("/v1/memories/project/co").status_code == 404


def test_forgotten_is_gone_on_every_path_at_once(client: httpx.Client, memory: MemoryRepository) -> None:
    memory_id = remember(client, "a quokka fact")
    service = MemoryService(memory.environment)
    assert service.search("quokka")["value"]["count"] == 1  # type: ignore[typeddict-item]
    gone = client.post(f"/v1/memories/{memory_id}/forget", json={"reason": "wrong"}).json()
    assert gone["mode"] == "soft_delete" and gone["status"] == "deleted" and gone["history_purged"] is False
    assert client.delete(f"/v1/memories/{memory_id}").json() == gone
    assert found(client, "quokka") == [] and found(client, "quokka", status="%") == []
    assert client.get("/v1/memories").json() == {"memories": [], "total": 0}
    context = client.post("/v1/recall/context", json={"query": "quokka"}).json()
    assert context["items"] == [] and context["answer_status"] == "no_confirmed_answer"
    assert client.get(f"/v1/memories/{memory_id}").status_code == 404
    for scope in ("active", "all", "archive"):
        assert service.search("quokka", scope=scope)["value"]["count"] == 0  # type: ignore[typeddict-item]
        assert service.context("quokka", scope=scope)["value"]["count"] == 0  # type: ignore[typeddict-item]
    [file] = memory.root.rglob(f"{memory_id}.md")
    assert file.is_relative_to(memory.root / "archive")
    # Remembering the same again works, and so does restoring.
    assert remember(client, "a quokka fact") != memory_id
    assert client.post(f"/v1/memories/{memory_id}/restore").json() == {
        "ok": True,
        "id": memory_id,
        "restored": True,
    }
    assert memory_id in found(client, "quokka")


def test_patch_merges_versions_and_names_conflicts(client: httpx.Client) -> None:
    loves = remember(client, "I love cilantro", metadata={"a": 1})
    hates = remember(client, "I hate cilantro")
    assert client.get(f"/v1/memories/{hates}").json()["conflicts_with"] == loves
    assert {loves, hates} == set(found(client, "cilantro"))
    body = {"content": "I love fresh cilantro", "metadata": {"b": 2}, "importance": 0.8}
    answer = client.patch(f"/v1/memories/{loves}", json=body, headers={"If-Match": '"1"'})
    value = answer.json()
    assert value["id"] == loves and value["version"] == 2 and value["metadata"] == {"a": 1, "b": 2}
    assert [each["id"] for each in value["conflicts"]] == [hates]
    assert answer.headers["etag"] == '"2"'
    stale = client.patch(f"/v1/memories/{loves}", json={"content": "x", "expected_version": 1})
    assert stale.status_code == 409
    replaced = client.patch(f"/v1/memories/{loves}", json={"metadata": {"c": 3}, "merge_metadata": False})
    assert replaced.json()["metadata"] == {"c": 3}
    assert client.patch("/v1/memories/nope", json={"content": "x"}).status_code == 404


def test_two_writers_of_one_version_one_wins(client: httpx.Client, served: Served) -> None:
    memory_id = remember(client, "original")
    statuses: list[int] = []

    def update(text: str) -> None:
        with served.client() as own:
            body = {"content": text, "expected_version": 1}
            statuses.append(own.patch(f"/v1/memories/{memory_id}", json=body).status_code)

    threads = [threading.Thread(target=update, args=(text,)) for text in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 409]


def test_32_parallel_writers_lose_nothing(served: Served, memory: MemoryRepository) -> None:
    before, token, answers = memory.head, served.token(), []

    def write(number: int) -> None:
        with httpx.Client(base_url=served.url, headers={"X-API-Key": token}, timeout=60) as own:
            answers.append(own.post("/v1/remember", json={"content": f"fact {number}", "path": "p"}))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 32
    assert memory.git("rev-list", "--count", f"{before}..HEAD") == b"32\n"
    assert len(list((memory.root / "handbook/p").iterdir())) == 32
    assert memory.git("status", "--porcelain") == b""
    memory.git("fsck", "--strict")


def test_idempotency_survives_a_restart(memory: MemoryRepository) -> None:
    body = {"content": "once", "path": "p"}
    with serving(memory) as first:
        token = first.token()
        one = first.client(token).post("/v1/memories", json=body, headers={"Idempotency-Key": "k"})
        other = first.client().post("/v1/memories", json=body, headers={"Idempotency-Key": "k"})
        assert one.json() != other.json()
    with serving(memory) as second:
        client = second.client(token)
        assert client.post("/v1/memories", json={**body, "idempotency_key": "k"}).json() == one.json()
        assert client.post("/v1/memories", json=body, headers={"X-Idempotency-Key": "k"}).json() == one.json()
        clash = client.post("/v1/memories", json={**body, "content": "x"}, headers={"Idempotency-Key": "k"})
        assert clash.status_code == 409
        assert client.get("/v1/memories").json()["total"] == 2


@pytest.mark.parametrize(
    ("given", "kept", "day"),
    [
        ("2031-08-10", "2031-08-10", "2031-08-10"),
        ("2031-08-10T10:00:00Z", "2031-08-10T10:00:00.000Z", "2031-08-11"),
        ("2031-08-10T01:00:00+09:00", "2031-08-09T16:00:00.000Z", "2031-08-10"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z", "9999-12-31"),
    ],
)
def test_expiry_is_normalised_once(
    client: httpx.Client, memory: MemoryRepository, given: str, kept: str, day: str
) -> None:
    memory_id = remember(client, "perishable", expires_at=given)
    assert client.get(f"/v1/memories/{memory_id}").json()["expires_at"] == kept
    [file] = memory.root.rglob(f"{memory_id}.md")
    assert f"\nexpires_at: {day}\n" in file.read_text()


def test_what_has_expired_is_not_found(client: httpx.Client) -> None:
    remember(client, "perishable", expires_at="2001-01-01T00:00:00Z")
    assert found(client, "perishable") == []
    for wrong in ("20310810", "2031-02-30", "soon", "", "2031-08-10T25:00:00Z"):
        refused = client.post("/v1/remember", json={"content": "x", "path": "p", "expires_at": wrong})
        assert refused.status_code == 422, wrong


def test_percent_is_the_only_wildcard(client: httpx.Client) -> None:
    one = remember(client, "alpha", path="50%_x", scope="s", bucket="b")
    two = remember(client, "alpha", path="50abcx")
    assert set(found(client, "alpha", path="50%x", bucket="%")) == {one, two}
    assert found(client, "alpha", path="%_x") == [one]
    assert found(client, "alpha", path="50_bcx") == []
    assert found(client, "alpha", scope="s") == [one] and found(client, "alpha", scope="%s") == []
    assert found(client, "alpha", memory_type="episodic") == []
    listed = client.get("/v1/memories", params={"path_prefix": "50%"}).json()
    assert [each["id"] for each in listed["memories"]] == [one]


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "..%2f",
        "a/../../b",
        "C:\\x",
        "//h/s",
        "nul.md",
        ".git/x",
        ".GIT/",
        ".sync/x",
        "/etc",
        "a\0b",
        "",
    ],
)
def test_unsafe_paths_are_refused(client: httpx.Client, path: str) -> None:
    answer = client.post("/v1/remember", json={"content": "x", "path": path})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "path"]


@pytest.mark.parametrize(
    "path", ["v1..v2.md", "handbook/x", "archive", "日本/語", "a b/ç", "x/" * 100, "~", "..."]
)
def test_other_paths_are_kept_verbatim(client: httpx.Client, memory: MemoryRepository, path: str) -> None:
    memory_id = remember(client, "text", path=path)
    assert client.get(f"/v1/memories/{memory_id}").json()["path"] == path
    [file] = memory.root.rglob(f"{memory_id}.md")
    assert file.is_relative_to(memory.root / "handbook")


@pytest.mark.parametrize(
    "body",
    [
        b'{"content":"x","path":"p","importance":NaN}',
        b'{"content":"x","path":"p","importance":1e999}',
        b'{"content":"x","path":"p","importance":true}',
        b'{"content":"x","path":"p","importance":2}',
        b'{"content":"x","content":"y","path":"p"}',
        b'\xef\xbb\xbf{"content":"x","path":"p"}',
        b'{"content":"\\ud800","path":"p"}',
        b'{"content":"a\\u0000b","path":"p"}',
        b'{"content":"x","path":"p","metadata":{"a":"\\u0000"}}',
        b'{"content":"\xff","path":"p"}',
        b'{"content":5,"path":"p"}',
        b'{"content":"x"}',
        b"[]",
        b"",
        b"{",
        b'{"content":"x","path":"p","metadata":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"content":"x","path":"p","metadata":' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}",
    ],
)
def test_bad_bodies_get_the_contracts_422(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/v1/remember", content=body)
    assert answer.status_code == 422
    assert answer.json().keys() == {"detail"}
    for issue in answer.json()["detail"]:
        assert issue.keys() == {"loc", "msg", "type"} and issue["loc"][0] == "body"


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=1e9", "limit=1001", "threshold=nan", "explain=7"]
)
def test_bad_queries_get_the_contracts_422(client: httpx.Client, query: str) -> None:
    answer = client.get(f"/v1/memories/search?query=x&{query}")
    assert answer.status_code == 422 and answer.json()["detail"][0]["loc"][0] == "query"
    assert client.get("/v1/memories?offset=-1").status_code == 422
    assert client.get("/v1/memories/search").json()["detail"][0]["loc"] == ["query", "query"]


def test_nulls_unknown_keys_and_texts_for_objects(client: httpx.Client) -> None:
    body = {
        "scope": None,
        "team_id": None,
        "bucket": None,
        "zzz": 1,
        "metadata": '{"tags": ["a_b"]}',
        "importance": "0.7",
    }
    value = client.get(f"/v1/memories/{remember(client, 'x', **body)}").json()
    assert (
        value["bucket"] == "public" and value["metadata"] == {"tags": ["a_b"]} and value["importance"] == 0.7
    )


def test_too_large_is_413(client: httpx.Client) -> None:
    answer = client.post("/v1/remember", json={"content": "x" * (1024 * 1024 + 1), "path": "p"})
    assert answer.status_code == 413 and answer.json()["detail"] == answer.json()["error"]["message"]
    assert client.post("/v1/remember", content=b"x" * (5 * 1024 * 1024)).status_code == 413


def test_a_content_length_that_lies_is_no_500(served: Served) -> None:
    head = f"POST /v1/remember HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {served.token()}\r\nContent-Length: 99\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(head.encode() + b'{"content":"x"')
        connection.shutdown(socket.SHUT_WR)
        assert b" 500 " not in connection.recv(4096)
    assert served.client().get("/health").status_code == 200


def test_a_secret_never_becomes_an_object(client: httpx.Client, memory: MemoryRepository) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    answer = client.post("/v1/remember", json={"content": f"token {secret}", "path": "p"})
    assert answer.status_code == 422 and answer.json()["detail"][0]["type"] == "secret-detected"
    assert secret not in answer.text
    objects = memory.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").decode().split()
    assert not any(secret.encode() in memory.git("cat-file", "-p", each) for each in objects)
    for harmless in ("risk-based", "AKIAIOSFODNN7EXAMPLE", "the word password", "a" * 40):
        remember(client, harmless)


def test_records_of_other_hands_are_memories_too(client: httpx.Client, memory: MemoryRepository) -> None:
    memory.write("handbook/project.md", record("project/codegen", "We chose TypeScript.\n", type="decision"))
    memory.commit()
    assert found(client, "typescript") == ["project/codegen"]
    changed = client.patch("/v1/memories/project/codegen", json={"importance": 0.9}).json()
    assert changed["content"] == "\nWe chose TypeScript.\n" and changed["memory_type"] == "semantic"
    context = client.post("/v1/recall/context", json={"query": "typescript"}).json()
    assert [item["id"] for item in context["items"]] == ["project/codegen"]


def test_what_an_editor_left_is_captured_before_a_write(
    client: httpx.Client, memory: MemoryRepository
) -> None:
    memory_id = remember(client, "first")
    [file] = memory.root.rglob(f"{memory_id}.md")
    file.write_text(file.read_text() + " and an edit by hand")
    changed = client.patch(f"/v1/memories/{memory_id}", json={"content": "second"})
    assert changed.status_code == 200, changed.text
    contents = [
        each["content"] for each in client.get(f"/v1/memories/{memory_id}/versions").json()["versions"]
    ]
    assert contents == ["second", "first and an edit by hand", "first"]


def test_limits_slide_per_token(memory: MemoryRepository) -> None:
    with serving(memory, limits=RateLimits.parse("write=2,search=3")) as served:
        client, other = served.client(), served.client()
        statuses = [client.get("/v1/memories").status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        refused = client.get("/v1/recall", params={"query": "x"})
        assert refused.status_code == 429 and 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.json()["error"]["code"] == "rate_limited"
        assert remember(client, "writes count apart") and other.get("/v1/memories").status_code == 200


def test_a_held_lock_is_503_with_retry_after(client: httpx.Client, memory: MemoryRepository) -> None:
    from dsh_memory.environment import utc_now
    from dsh_memory.repository.lock import hold

    child_ready = threading.Event()
    with memory.open() as repo, hold(repo.root, "sync", "20260820T120000Z-0a0b0c0d", utc_now):
        child_ready.set()
        answer = client.post("/v1/remember", json={"content": "x", "path": "p"})
    assert answer.status_code == 503 and answer.headers["retry-after"].isdecimal()
    assert answer.json()["error"]["code"] == "operation_in_progress"
    assert json.loads(client.get("/v1/memories").text)["total"] == 0


def test_the_twins_of_one_name_are_one(served: Served, memory: MemoryRepository) -> None:
    """`cases.md` 19: `é` as one letter, or as `e` and an accent."""
    one, two = "projekte/café", "projekte/cafe\u0301"
    memory.write("handbook/cafe\u0301.md", record("x/cafe", "Der Röster steht im Café.\n"))
    memory.commit()
    client = served.client()
    body = {"content": "Im Café gilt: kein Zucker.", "path": one, "semantic_key": "café/zucker"}
    first = client.post("/v1/remember", json=body).json()["id"]
    twin = {key: unicodedata.normalize("NFD", value) for key, value in body.items()}
    assert twin["path"] == two
    assert client.post("/v1/remember", json=twin).json()["id"] == first
    keyless = {**body, "semantic_key": None, "content": "Ein Löffel reicht."}
    again = {**keyless, "path": two, "content": unicodedata.normalize("NFD", keyless["content"])}
    ids = {client.post("/v1/remember", json=each).json()["id"] for each in (keyless, again)}
    assert len(ids) == 1
    for path in (one, two, "%/café", "%cafe\u0301"):
        found = client.get("/v1/memories", params={"path": path}).json()["memories"]
        assert {each["id"] for each in found} == {first, *ids}, path
    for prefix in ("projekte/caf\u00e9", "projekte/cafe\u0301"):
        assert client.get("/v1/memories", params={"path_prefix": prefix}).json()["total"] == 2
        bound = served.client(served.token(path_prefixes=(prefix,)))
        assert bound.get(f"/v1/memories/{first}").status_code == 200
    for query in ("café", "cafe\u0301"):
        results = client.get("/v1/memories/search", params={"query": query, "limit": 9}).json()["results"]
        assert {"x/cafe", first} <= {each["id"] for each in results}, query
    folders = {path.parent.name for path in memory.root.glob("handbook/projekte/*/*.md")}
    assert folders == {"cafe"}


def test_names_that_look_alike_stay_apart(tmp_path: Path, served: Served) -> None:
    """`cases.md` 82: `a_b` and `a-b` are two roots, two paths, two keys; a root has one key however it is spelled."""
    client = served.client()
    ids = {}
    for name in ("a_b", "a-b", "a b", "A_B"):
        body = {"content": "The same words.", "path": f"projects/{name}", "semantic_key": name}
        ids[name] = client.post("/v1/remember", json=body).json()["id"]
    assert len(set(ids.values())) == 4
    for name, identity in ids.items():
        found = client.get("/v1/memories", params={"path": f"projects/{name}"}).json()["memories"]
        assert [each["id"] for each in found] == [identity]
    roots = [tmp_path / "roots" / name for name in ("a_b", "a-b")]
    for root in roots:
        MemoryRepository.create(root)
    (tmp_path / "link").symlink_to(roots[0])
    one, same, other = (
        Environment.from_process(root=str(root)).state_dir
        for root in (f"{roots[0]}/", tmp_path / "link" / "." / "handbook" / "..", roots[1])
    )
    assert one == same != other
