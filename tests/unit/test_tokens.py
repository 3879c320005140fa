"""Access tokens: what is stored, who is let in, and what a broken store does."""

from __future__ import annotations

import hmac
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from dsh_memory.environment import Environment
from dsh_memory.tokens import RIGHTS, TokenStore, TokenStoreError
from tests.support.clocks import FrozenClock


@pytest.fixture
def store(tmp_path: Path, clock: FrozenClock) -> TokenStore:
    return TokenStore(str(tmp_path / "state"), clock=clock)


def test_a_token_is_found_by_its_text_and_by_nothing_near_it(store: TokenStore) -> None:
    token, text = store.create("laptop", ["memory:read"])
    assert store.find(text) == token
    flipped = text[:-1] + ("A" if text[-1] != "A" else "B")
    for other in ("", "x", flipped, text + " ", text[:-1], f"dshm_{'0' * 12}_{'A' * 43}", "é" * 61):
        assert store.find(other) is None


def test_a_known_and_an_unknown_token_are_compared_alike_in_constant_time(
    store: TokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def watched(presented: str, digest: str) -> bool:
        compared.append((len(presented), len(digest)))
        return compare(presented, digest)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    _, text = store.create("laptop", ["memory:read"])
    assert store.find(text) is not None and store.find(f"dshm_{'0' * 12}_{'A' * 43}") is None
    assert compared == [(64, 64), (64, 64)]


def test_the_store_is_private_and_holds_no_secret(store: TokenStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        token, text = store.create("laptop", ["memory:read"])
    finally:
        os.umask(before)
    secret = text.removeprefix(f"dshm_{token.id}_")
    for path in (tmp_path / "state").iterdir():
        assert path.stat().st_mode & 0o077 == 0
        assert secret not in path.read_text()
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    assert secret not in repr(token) and token.digest not in repr(token)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_store_that_others_may_read_lets_nobody_in(store: TokenStore, tmp_path: Path, mode: int) -> None:
    _, text = store.create("laptop", ["memory:read"])
    (tmp_path / "state" / "tokens.json").chmod(mode)
    with pytest.raises(TokenStoreError):
        store.find(text)


def test_a_store_behind_a_link_lets_nobody_in(store: TokenStore, tmp_path: Path) -> None:
    _, text = store.create("laptop", ["memory:read"])
    path = tmp_path / "state" / "tokens.json"
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(TokenStoreError):
        store.find(text)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"tokens": [1]}', '{"tokens": [{}]}', "\x00", "[" * 100_000],
)
def test_a_broken_store_is_named_and_left_alone(store: TokenStore, tmp_path: Path, content: str) -> None:
    store.create("laptop", ["memory:read"])
    path = tmp_path / "state" / "tokens.json"
    path.write_text(content)
    with pytest.raises(TokenStoreError):
        store.tokens()
    with pytest.raises(TokenStoreError):
        store.create("other", ["memory:read"])
    assert path.read_text() == content


def test_a_restriction_of_a_newer_version_is_not_dropped(store: TokenStore, tmp_path: Path) -> None:
    store.create("laptop", ["memory:read"])
    path = tmp_path / "state" / "tokens.json"
    document = json.loads(path.read_text())
    document["tokens"][0]["networks"] = ["10.0.0.0/8"]
    path.write_text(json.dumps(document))
    with pytest.raises(TokenStoreError):
        store.tokens()


def test_revoked_and_expired_tokens_are_refused_at_once(
    store: TokenStore, clock: FrozenClock, tmp_path: Path
) -> None:
    kept, kept_text = store.create("kept", ["memory:read"])
    short, short_text = store.create("short", ["memory:read"], expires_at=clock.now + timedelta(minutes=1))
    assert store.find(short_text) == short
    clock.advance(minutes=1)
    assert store.find(short_text) is None
    assert store.find(kept_text) == kept
    # another process revokes, this one sees it
    other = TokenStore(str(tmp_path / "state"), clock=clock)
    revoked = other.revoke(kept.id)
    assert revoked is not None and revoked.revoked_at == "2026-08-20T12:01:00.000Z"
    assert store.find(kept_text) is None
    clock.advance(days=1)
    assert other.revoke(kept.id) == revoked
    assert other.revoke("000000000000") is None


def test_rights_are_exact_but_for_writing(store: TokenStore) -> None:
    read, _ = store.create("read", ["memory:read"])
    write, _ = store.create("write", ["memory:write"])
    assert [right for right in RIGHTS if read.allows(right)] == ["memory:read"]
    assert [right for right in RIGHTS if write.allows(right)] == [
        "memory:write",
        "memory:restore",
        "memory:delete",
    ]
    for rights in ([], ["memory:all"], ["memory:read", "x"]):
        with pytest.raises(ValueError, match="a right is one of"):
            store.create("none", rights)


def test_restrictions_are_kept(store: TokenStore) -> None:
    plain, _ = store.create("plain", ["memory:read"], temporary_agent=True)
    assert plain.temporary_agent and not plain.restricted
    for restriction in ({"buckets": ["a"]}, {"scopes": ["s"]}, {"path_prefixes": ["/p"]}, {"team": "t"}):
        token, text = store.create("narrow", ["memory:read"], **restriction)  # type: ignore[arg-type]
        assert token.restricted
        assert store.find(text) == token


def test_processes_that_create_at_once_lose_no_token(tmp_path: Path) -> None:
    program = (
        "import sys; from dsh_memory.tokens import TokenStore\n"
        "for n in range(10): TokenStore(sys.argv[1]).create(str(n), ['memory:read'])"
    )
    folder = str(tmp_path / "state")
    running = [subprocess.Popen([sys.executable, "-c", program, folder]) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert len({token.id for token in TokenStore(folder).tokens()}) == 40


def test_one_root_has_one_state_folder_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    for name in ("a_b", "a-b"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)

    def folder(root: str) -> str:
        return Environment.from_process({"HOME": str(tmp_path)}, root=root).state_dir

    one = folder(str(tmp_path / "a_b"))
    assert (
        folder(f"{tmp_path}/a_b/") == folder(f"{tmp_path}/link/a_b") == folder(f"{tmp_path}/x/../a_b") == one
    )
    assert folder(str(tmp_path / "a-b")) != one
