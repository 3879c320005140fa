"""The secret scanner: every labelled shape is found, no harmless text is touched, hostile text costs
linear work.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from dsh_memory.environment import Environment
from dsh_memory.records.secret_shapes import SHAPES
from dsh_memory.records.secrets import find_secrets, is_secret_name, parse_allow_list, scan
from dsh_memory.repository.allowed_secrets import ALLOW_LIST_NAME, read_allowed_secrets
from dsh_memory.sync.redaction import redact, redact_text

DATA = Path(__file__).parent.parent / "data" / "redaction"


def _lines(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").split("\n") if line]


def _secrets() -> list[tuple[str, str, str, str]]:
    # The file holds each text in pieces, so that no push scanner takes the fakes for real ones.
    return [
        (str(entry["kind"]), *("".join(entry[part]) for part in ("before", "secret", "after")))  # type: ignore[arg-type]
        for entry in _lines("secrets.jsonl")
    ]


SECRETS = _secrets()
HARMLESS = [str(entry["text"]) for entry in _lines("harmless.jsonl")]


def test_the_labelled_sets_are_large_enough() -> None:
    assert len({secret for _, _, secret, _ in SECRETS}) >= 120
    assert len(set(HARMLESS)) >= 120


@pytest.mark.parametrize(("kind", "before", "secret", "after"), SECRETS)
def test_every_labelled_secret_is_found_and_masked(kind: str, before: str, secret: str, after: str) -> None:
    text = before + secret + after
    found = find_secrets(text)
    assert kind in {each.kind for each in found}
    masked = redact_text(text)
    assert "[REDACTED]" in masked
    # Of a webhook's address, a bot's number or a key's first letters something may stay; of its last third
    # nothing.
    assert secret[-max(len(secret) // 3, 1) :] + after not in masked
    assert masked.startswith(before[:6])


@pytest.mark.parametrize("text", HARMLESS)
def test_no_harmless_text_is_hit(text: str) -> None:
    assert find_secrets(text) == []
    assert redact_text(text) == text


def test_every_shape_of_the_table_has_an_example() -> None:
    assert {shape.kind for shape in SHAPES} | {"private-key"} == {kind for kind, *_ in SECRETS}


def test_findings_name_file_line_and_kind_but_never_the_secret() -> None:
    secret = "ghp_" + "a1" * 18
    data = f"---\nid: x\n---\nfirst\ntoken is {secret}\n".encode()
    (finding,) = scan("handbook/x.md", data)
    assert (finding.path, finding.line, finding.kind) == ("handbook/x.md", 5, "github-token")
    assert secret not in repr(finding)


def test_an_allowed_line_is_allowed_wherever_it_stands_and_nothing_else() -> None:
    line = "the sample key is sk-" + "ab12" * 8
    other = "password=hunter2"
    digest = scan("a.md", line.encode())[0].digest
    allowed = parse_allow_list(f"# why\nsha256:{digest} a test vector\nnonsense\n".encode())
    assert scan("b.md", f"x\n   {line}  \n".encode(), allowed) == []
    assert [finding.line for finding in scan("b.md", f"{line}\n{other}".encode(), allowed)] == [2]


def test_allowing_one_private_key_does_not_allow_another() -> None:
    def key(body: str) -> bytes:
        return f"-----BEGIN PRIVATE KEY-----\n{body * 16}\n-----END PRIVATE KEY-----\n".encode()

    allowed = frozenset({scan("a", key("abcd"))[0].digest})
    assert scan("a", key("abcd"), allowed) == []
    assert len(scan("a", key("efgh"), allowed)) == 1


def test_the_allow_list_is_read_from_the_dsh_home(tmp_path: Path) -> None:
    environment = Environment(dsh_home=str(tmp_path), memory_root=str(tmp_path / "memory"))
    assert read_allowed_secrets(environment) == frozenset()
    (tmp_path / ALLOW_LIST_NAME).write_text("sha256:" + "ab" * 32 + "\n")
    assert read_allowed_secrets(environment) == frozenset({"ab" * 32})
    (tmp_path / ALLOW_LIST_NAME).unlink()
    (tmp_path / ALLOW_LIST_NAME).symlink_to(tmp_path / "elsewhere")
    assert read_allowed_secrets(environment) == frozenset()


@pytest.mark.parametrize(
    "data", [b"\xff\xfepassword=hunter2", b"\x00password=hunter2", "İİ password=hunter2".encode()]
)
def test_bytes_that_are_no_plain_text_are_scanned_too(data: bytes) -> None:
    assert len(scan("x", data)) == 1


def test_values_of_secret_fields_are_masked_whatever_they_hold() -> None:
    value = {
        "command": "ls",
        "apiKey": "hunter2",
        "nested": [{"client_secret": ["a", {"b": 1}], "x-api-key": 17, "PASSWORD": "p"}],
        "token": None,
        "secret": False,
        "max_tokens": 4096,
        "path": "/home/ada/project and /root/x and C:\\Users\\ada\\x",
    }
    assert redact(value) == {
        "command": "ls",
        "apiKey": "[REDACTED]",
        "nested": [{"client_secret": "[REDACTED]", "x-api-key": "[REDACTED]", "PASSWORD": "[REDACTED]"}],
        "token": None,
        "secret": False,
        "max_tokens": 4096,
        "path": "$HOME/project and $HOME/x and $HOME\\x",
    }


def test_a_secret_used_as_a_key_is_masked() -> None:
    assert redact({"ghp_" + "b2" * 18: 1}) == {"[REDACTED]": 1}


def test_deep_nesting_is_cut_not_followed() -> None:
    value: object = "ghp_" + "c3" * 18
    for _ in range(500):
        value = [value]
    assert "ghp_" not in str(redact(value))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/Users/ada/x", "$HOME/x"),
        ("cd /home/ada", "cd $HOME"),
        ("/root", "$HOME"),
        ('"/home/ada/a b"', '"$HOME/a b"'),
        ("C:\\\\Users\\\\ada\\\\x", "$HOME\\\\x"),
        ("/mnt/c/Users/ada/x", "$HOME/x"),
        ("https://example.com/home/about", "https://example.com/home/about"),
        ("/rootfs and ./root and src/root", "/rootfs and ./root and src/root"),
    ],
)
def test_home_folders_are_masked(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize(
    "name",
    ["token", "access_token", "refreshToken", "API_KEY", "apiKey", "x-api-key", "OPENAI_API_KEY",
     "clientSecret", "password", "db.password", "Authorization", "private_key", "passphrase",
     "aws_secret_access_key"],
)  # fmt: skip
def test_names_of_secret_fields(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["tokens", "max_tokens", "tokenizer", "secretary", "key", "public_key", ""])
def test_names_of_harmless_fields(name: str) -> None:
    assert not is_secret_name(name)


HOSTILE = [
    *(marker for shape in SHAPES for marker in shape.markers),
    "sk- ", "eyJaaaaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "://a:", "&aaaaaaaaaaaaaaaaaaaaaa",
    "?token", "password:", "authorization: bearer ", "--a-token ", "machine a login ", "curl -u a:",
    'password"\\"', "a", " ", "İ",
]  # fmt: skip


def test_work_on_hostile_text_grows_linearly() -> None:
    def cost(unit: str, size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        start = time.process_time()
        find_secrets(text)
        return time.process_time() - start

    # A quadratic pattern needs minutes for a megabyte; the bound leaves slow machines twenty times the
    # usual cost.
    slow = {unit: spent for unit in set(HOSTILE) if (spent := cost(unit, 1024 * 1024)) > 4}
    assert not slow
