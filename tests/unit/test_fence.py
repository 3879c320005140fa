"""The browser fence: which Host, Origin and Sec-Fetch-Site a request may carry."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from dsh_memory.hosts.fence import HostRule, admits

RULE = HostRule("127.0.0.1", ["memory.example", "box:8443", "web:80", "[fe80::1]"])


def admitted(*headers: tuple[str, str], rule: HostRule = RULE) -> bool:
    return admits(Headers(raw=[(name.encode(), value.encode()) for name, value in headers]), rule)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9",
        "127.9.9.9:65535",
        "localhost",
        "LOCALHOST:80",
        "[::1]:8765",
        "memory.example",
        "Memory.Example:123",
        "box:8443",
        "web",
        "web:80",
        "[fe80::1]:1",
    ],
)
def test_names_of_this_server_pass(host: str) -> None:
    assert admitted(("host", host))


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "127.0.0.256",
        "0.0.0.0:8765",
        "box",
        "box:8444",
        "web:8080",
        "user@127.0.0.1",
        "127.0.0.1:8765/x",
        "127.0.0.1 ",
        "127.0.0.1:",
        "127.0.0.1:x",
        "[::2]",
        "१२७.0.0.1",
    ],
)
def test_other_names_do_not(host: str) -> None:
    assert not admitted(("host", host))


def test_one_host_is_needed() -> None:
    assert not admitted()
    assert not admitted(("host", "localhost"), ("host", "localhost"))


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("127.0.0.1:8765", "http://127.0.0.1:8765", True),
        ("127.0.0.1:8765", "HTTP://127.0.0.1:8765", True),
        ("127.0.0.1", "http://127.0.0.1:80", True),
        ("memory.example", "https://memory.example", True),
        ("127.0.0.1:8765", "http://127.0.0.1:8766", False),
        ("127.0.0.1:8765", "http://localhost:8765", False),
        ("127.0.0.1:8765", "http://evil.example", False),
        ("127.0.0.1:8765", "null", False),
        ("127.0.0.1:8765", "", False),
        ("127.0.0.1:8765", "http://127.0.0.1:8765/", False),
        ("127.0.0.1:8765", "file://127.0.0.1:8765", False),
    ],
)
def test_an_origin_must_be_the_host(host: str, origin: str, expected: bool) -> None:
    assert admitted(("host", host), ("origin", origin)) is expected


def test_two_origins_are_none() -> None:
    origin = ("origin", "http://localhost")
    assert not admitted(("host", "localhost"), origin, origin)


@pytest.mark.parametrize(
    ("site", "expected"),
    [
        ("same-origin", True),
        ("none", True),
        ("same-site", True),
        ("cross-site", False),
        ("Cross-Site", False),
    ],
)
def test_another_site_is_refused(site: str, expected: bool) -> None:
    assert admitted(("host", "localhost"), ("sec-fetch-site", site)) is expected


def test_the_bound_host_is_a_name_and_a_wildcard_is_none() -> None:
    assert admitted(("host", "192.168.1.5:8765"), rule=HostRule("192.168.1.5"))
    for wildcard, host in (("0.0.0.0", "0.0.0.0:8765"), ("::", "[::]:8765")):
        assert not admitted(("host", host), rule=HostRule(wildcard))


@pytest.mark.parametrize("entry", ["http://memory.example", "a/b", "a b", "", "*", "a:b", "user@a"])
def test_an_allowed_host_that_is_none_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match="is no host"):
        HostRule("127.0.0.1", [entry])
