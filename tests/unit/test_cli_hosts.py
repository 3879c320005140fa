"""`dsh-memory token`, `plugin` and `serve --http`: what they print, what they refuse, how they end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from dsh_memory.cli import main
from dsh_memory.environment import Environment
from dsh_memory.tokens import TokenStore

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """One command line on a root and a DSH home of the test: exit code, output, narration."""

    def call(*arguments: str) -> tuple[int, str, str]:
        roots = ["--root", str(tmp_path / "memory"), "--dsh-home", str(tmp_path / "dsh-home")]
        try:
            code = main([*roots, *arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore.of(
        Environment(dsh_home=str(tmp_path / "dsh-home"), memory_root=str(tmp_path / "memory"))
    )


def test_a_token_is_shown_once_and_alone_on_standard_output(run: Run, store: TokenStore) -> None:
    code, out, err = run("token", "create", "--name", "lap\x1b[31mtop", "--right", "read", "--expires", "30d")
    assert code == 0
    token = store.find(out.strip())
    assert token is not None and token.rights == ("memory:read",) and token.expires_at is not None
    assert "only time" in err
    code, out, err = run("token", "list")
    assert (code, err) == (0, "")
    assert token.id in out and "\x1b" not in out and "dshm_" not in out and token.digest not in out


def test_a_token_as_json_has_its_text_and_a_list_has_not(run: Run, store: TokenStore) -> None:
    made = json.loads(
        run("token", "create", "--json", "--bucket", "b", "--memory-scope", "s", "--team", "t")[1]
    )["value"]
    token = store.find(made["token"])
    assert token is not None and (token.buckets, token.scopes, token.team) == (("b",), ("s",), "t")
    listed = json.loads(run("token", "list", "--json")[1])["value"]["tokens"]
    assert listed == [{key: value for key, value in made.items() if key != "token"}]
    assert "digest" not in listed[0]


def test_revoking(run: Run, store: TokenStore) -> None:
    text = run("token", "create")[1].strip()
    token = store.find(text)
    assert token is not None
    assert run("token", "revoke", token.id)[0] == 0
    assert store.find(text) is None
    assert "revoked" in run("token", "list")[1]
    code, out, err = run("token", "revoke", "nope", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "token-not-found")
    assert err.startswith("dsh-memory: token-not-found")


@pytest.mark.parametrize(
    "arguments",
    [
        ("token",),
        ("token", "create", "--right", "all"),
        ("token", "create", "--expires", "soon"),
        ("token", "create", "--expires", "2026-12-31"),
        ("plugin", "install", "extra"),
        ("serve",),
        ("serve", "--stdio", "--http"),
        ("serve", "--http", "--port", "70000"),
        ("serve", "--http", "--allowed-host", "http://x"),
    ],
)
def test_wrong_usage_does_nothing(run: Run, store: TokenStore, arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err
    assert store.tokens() == ()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "203.0.113.7", "example.org", ""])
@pytest.mark.parametrize("open_reads", [(), ("--open-reads",)])
def test_a_network_address_needs_a_token_that_still_works(
    run: Run,
    store: TokenStore,
    host: str,
    open_reads: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def started(_: object) -> NoReturn:
        raise AssertionError("it would have been open")

    monkeypatch.setattr("dsh_memory.hosts.http._bind", started)
    token, _ = store.create("old", ["memory:read"])
    store.revoke(token.id)
    code, _, err = run("serve", "--http", "--host", host, *open_reads)
    assert code == 2
    assert "every method needs a token there" in err


def test_an_address_in_use_is_named(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run("serve", "--http", "--port", str(port))
    assert code == 2
    assert f"127.0.0.1:{port} cannot be bound" in err


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_serve_http_says_where_and_ends_well(tmp_path: Path, store: TokenStore, how: signal.Signals) -> None:
    _, token = store.create("test", ["memory:read"])
    roots = ["--root", str(tmp_path / "memory"), "--dsh-home", str(tmp_path / "dsh-home")]
    command = [sys.executable, "-P", "-m", "dsh_memory", *roots, "serve", "--http", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip().removeprefix("dsh-memory: http://")
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as client:
            message = {"type": "client-request", "rpcId": "a", "method": "memory/nope"}
            body = json.dumps(message).encode()
            head = f"POST /api/memory/status?q={token} HTTP/1.1\r\nHost: {address}\r\nX-API-Key: {token}\r\n"
            head += (
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            client.sendall(head.encode() + body)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"bad-request" in answer and b"server: " not in answer.lower()
        process.send_signal(how)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "")
    (line,) = err.splitlines()
    assert json.loads(line)["status"] == 200
    assert token not in err


def test_the_plugin_goes_in_and_out(run: Run, tmp_path: Path) -> None:
    folder = Path(run("plugin", "path")[1].strip())
    assert (folder / "index.js").is_file()
    code, out, err = run("plugin", "install")
    assert (code, len(out.splitlines())) == (0, 2)
    assert str(tmp_path / "dsh-home") in out and "Start dsh again" in err
    assert run("plugin", "install") == (0, "", "It was installed already.\n")
    assert json.loads(run("plugin", "remove", "--json")[1])["ok"] is True
    assert run("plugin", "remove") == (0, "", "It was not installed.\n")
    code, out, err = run("plugin", "pack", "--output", str(tmp_path))
    assert Path(out.strip()).is_file()
    assert f"dsh plugin --profile web add file:{out.strip()}" in err
    code, out, err = run("plugin", "pack", "--output", str(tmp_path / "nowhere"), "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "plugin-unchanged")
