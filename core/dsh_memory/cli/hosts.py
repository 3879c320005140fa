"""Commands around the hosts: `serve --http`, access tokens, and the DSH host's plugin."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from dsh_memory.cli.invocation import Invocation, UsageError
from dsh_memory.cli.output import DONE, answer, emit, fail, narrate
from dsh_memory.cli.tables import table
from dsh_memory.environment import parse_instant, utc_now
from dsh_memory.text import visible

if TYPE_CHECKING:
    from dsh_memory.cli.parser import Commands
    from dsh_memory.tokens import Token, TokenStore

Paths = tuple[str, ...]

_SPAN = re.compile(r"([1-9][0-9]{0,4})([dhm])")
_SPAN_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


def add_http_options(serve: argparse.ArgumentParser) -> None:
    """The options of `serve --http`."""
    serve.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="(default 127.0.0.1)")
    serve.add_argument(
        "--port", type=_port, default=8765, metavar="N", help="0 takes a free one (default 8765)"
    )
    serve.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="another name under which clients may call this server; can be given more than once",
    )
    serve.add_argument(
        "--open-reads", action="store_true", help="let callers on this machine read without a token"
    )
    serve.add_argument(
        "--rate-limits",
        metavar="LIMITS",
        help="calls a minute for each token: off, or write=N,search=N (default 180 and 300)",
    )


def add_host_commands(commands: Commands) -> None:
    """The commands `token` and `plugin`."""
    tokens = commands.group("token", "Make, list and revoke access tokens for the HTTP door")
    create = tokens.add("create", "hosts:create_token", "Make a token and show it this once")
    create.add_argument("--name", default="unnamed", help="what it is for")
    create.add_argument(
        "--right",
        action="append",
        choices=("read", "write", "restore", "delete"),
        help="what it may do; can be given more than once (default read)",
    )
    create.add_argument(
        "--scopes",
        metavar="NAMES",
        help="the same, comma-separated, as the memory API names them: memory:read,memory:write",
    )
    create.add_argument(
        "--expires", type=_instant, metavar="WHEN", help="30d, 12h, 5m, or an ISO 8601 instant"
    )
    for options, what in (
        (("--bucket",), "bucket"),
        (("--memory-scope", "--scope"), "scope"),
        (("--path-prefix",), "path prefix"),
    ):
        create.add_argument(
            *options, action="append", default=[], metavar="NAME", help=f"bind it to this {what}"
        )
    create.add_argument("--team", metavar="NAME", help="bind it to this team")
    create.add_argument("--temporary-agent", action="store_true", help="for an agent that reads for one task")
    tokens.add("list", "hosts:list_tokens", "List the tokens; never their text")
    revoke = tokens.add("revoke", "hosts:revoke_token", "Refuse a token from now on")
    revoke.add_argument("id", metavar="ID", help="as `dsh-memory token list` shows it")
    plugin = commands.group("plugin", "The DSH host's plugin: where it lies, pack it, install it, remove it")
    plugin.add("path", "hosts:plugin_path", "Show the folder of its files")
    pack = plugin.add("pack", "hosts:pack_plugin", "Write the .tgz that `dsh plugin add` takes")
    pack.add_argument("--output", default=".", metavar="DIR", help="the folder to write to (default here)")
    plugin.add("install", "hosts:install_plugin", "Put it into the DSH home, for every profile")
    plugin.add("remove", "hosts:remove_plugin", "Take it out of the DSH home again")


def serve_http(call: Invocation) -> int:
    """`serve --http`"""
    from dsh_memory.api.limits import RateLimits
    from dsh_memory.hosts.http import HttpOptions, ServeRefused, serve
    from dsh_memory.tokens import TokenStoreError

    asked = call.arguments
    try:
        limits = RateLimits() if asked.rate_limits is None else RateLimits.parse(asked.rate_limits)
    except ValueError as error:
        raise UsageError(f"--rate-limits: {error}") from error
    options = HttpOptions(asked.host, asked.port, tuple(asked.allowed_host), asked.open_reads, limits)
    try:
        serve(call.environment, options)
    except ServeRefused as error:
        raise UsageError(str(error)) from error
    except TokenStoreError as error:
        return fail("token-store-unavailable", str(error), None, as_json=False)
    return DONE


def _rights(rights: list[str] | None, scopes: str | None) -> list[str]:
    """The rights of a new token, named one by one or as the memory API does; reading where none is named."""
    from dsh_memory.tokens import RIGHTS

    named = [f"memory:{right}" for right in rights or ()]
    named += [name.strip() for name in (scopes or "").split(",") if name.strip()]
    unknown = [name for name in named if name not in RIGHTS]
    if unknown:
        raise UsageError(f"a scope is one of: {', '.join(RIGHTS)}")
    return named or ["memory:read"]


def create_token(call: Invocation) -> int:
    """`token create`"""
    asked = call.arguments

    rights = _rights(asked.right, asked.scopes)

    def create(store: TokenStore) -> int:
        token, text = store.create(
            asked.name,
            rights,
            expires_at=asked.expires,
            buckets=asked.bucket,
            scopes=asked.memory_scope,
            path_prefixes=asked.path_prefix,
            team=asked.team,
            temporary_agent=asked.temporary_agent,
        )
        if answer(call, {"ok": True, "value": {**_shown(token), "token": text}}):
            emit(text)
            narrate("This is the only time it is shown. Send it as: Authorization: Bearer TOKEN")
        return DONE

    return _with_store(call, create)


def list_tokens(call: Invocation) -> int:
    """`token list`"""

    def show(store: TokenStore) -> int:
        tokens = store.tokens()
        if answer(call, {"ok": True, "value": {"tokens": [_shown(token) for token in tokens]}}):
            rows = [
                (token.id, token.name, " ".join(token.rights), _state(token), _binding(token))
                for token in tokens
            ]
            if rows:
                emit(*table(("ID", "NAME", "RIGHTS", "STATE", "BOUND TO"), rows))
            else:
                narrate("No token yet; make one with: dsh-memory token create")
        return DONE

    return _with_store(call, show)


def revoke_token(call: Invocation) -> int:
    """`token revoke`"""

    def revoke(store: TokenStore) -> int:
        token = store.revoke(call.arguments.id)
        if token is None:
            return fail("token-not-found", "No token has this id.", None, as_json=call.wants_json)
        if answer(call, {"ok": True, "value": _shown(token)}):
            narrate(f"Token {token.id} ({token.name}) is refused from now on.")
        return DONE

    return _with_store(call, revoke)


def plugin_path(call: Invocation) -> int:
    """`plugin path`"""
    from dsh_memory.hosts.plugin import plugin_folder

    return _with_plugin(call, lambda: (plugin_folder(),), lambda _: None)


def pack_plugin(call: Invocation) -> int:
    """`plugin pack`"""
    from dsh_memory.hosts.plugin import pack

    return _with_plugin(
        call,
        lambda: (pack(call.arguments.output),),
        lambda paths: f"Install it with: dsh plugin --profile web add file:{paths[0]}",
    )


def install_plugin(call: Invocation) -> int:
    """`plugin install`"""
    from dsh_memory.hosts.plugin import install

    return _with_plugin(
        call,
        lambda: install(call.environment.dsh_home),
        lambda paths: "Start dsh again to load it." if paths else "It was installed already.",
    )


def remove_plugin(call: Invocation) -> int:
    """`plugin remove`"""
    from dsh_memory.hosts.plugin import remove

    return _with_plugin(
        call,
        lambda: remove(call.environment.dsh_home),
        lambda paths: "Taken out." if paths else "It was not installed.",
    )


def _with_store(call: Invocation, act: Callable[[TokenStore], int]) -> int:
    from dsh_memory.tokens import TokenStore, TokenStoreError

    try:
        return act(TokenStore.of(call.environment))
    except TokenStoreError as error:
        return fail("token-store-unavailable", str(error), None, as_json=call.wants_json)


def _with_plugin(
    call: Invocation, act: Callable[[], Paths], last_words: Callable[[Paths], str | None]
) -> int:
    from dsh_memory.hosts.plugin import PluginFailure

    try:
        paths = act()
    except PluginFailure as error:
        return fail("plugin-unchanged", str(error), None, as_json=call.wants_json)
    if answer(call, {"ok": True, "value": {"paths": list(paths)}}):
        emit(*map(visible, paths))
        if words := last_words(paths):
            narrate(words)
    return DONE


def _shown(token: Token) -> dict[str, object]:
    fields = asdict(token)
    del fields["digest"]
    return fields


def _state(token: Token) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "active" if token.active(utc_now()) else "expired"


def _binding(token: Token) -> str:
    bound = [
        *(f"bucket {name}" for name in token.buckets),
        *(f"scope {name}" for name in token.scopes),
        *(f"path {name}" for name in token.path_prefixes),
        *([f"team {token.team}"] if token.team else []),
        *(["a temporary agent"] if token.temporary_agent else []),
    ]
    return ", ".join(bound)


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError("a port is 0 to 65535")
    return number


def _instant(text: str) -> datetime:
    span = _SPAN.fullmatch(text)
    instant = (
        utc_now() + timedelta(**{_SPAN_UNITS[span[2]]: int(span[1])})
        if span is not None
        else parse_instant(text)
    )
    if instant is None:
        raise argparse.ArgumentTypeError("give 30d, 12h, 5m, or an instant such as 2026-12-31T00:00:00Z")
    return instant
