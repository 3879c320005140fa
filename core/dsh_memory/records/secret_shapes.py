"""What a secret looks like: one table of shapes, each with its kind, its markers and a pattern.

What keeps every pattern linear on hostile text: no character of a body may stand before its prefix, so a
run that failed is never scanned again from within; repeats are possessive or bounded.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dsh_memory.records.secret_values import (
    is_harmless,
    is_masked,
    is_placeholder,
    is_secret_assignment,
    looks_random,
)

_COMMAND_CHARACTERS: Final = 300
"""How far before `-u` the word curl may stand."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of secret: the group `value` of the pattern is the secret, if `accept` agrees.

    `markers` are lower-case texts; where none of them occurs the pattern need not run. A `folded` pattern
    runs on the lower-case text, since the engine ignores case slowly; `accept` is given the match and the
    value as it was typed.
    """

    kind: str
    markers: tuple[str, ...]
    pattern: re.Pattern[str]
    accept: Callable[[re.Match[str], str], bool]
    folded: bool = False


def _is_real(match: re.Match[str], value: str) -> bool:
    return not is_placeholder(value)


def _key(
    kind: str, prefix: str, shortest: int, *, body: str = "A-Za-z0-9_", marker: str | None = None
) -> Shape:
    """A key known by its prefix (of fixed width), then at least `shortest` characters of the class `body`."""
    # A lookbehind after the prefix, not one before it, leaves the engine its fast search for a literal.
    pattern = rf"(?P<value>{prefix}(?<![A-Za-z0-9_{body}]{prefix})[{body}]{{{shortest},}}+)"
    return Shape(kind, (marker or prefix.lower(),), re.compile(pattern), _is_real)


def _is_generic_key(match: re.Match[str], value: str) -> bool:
    # "sk-learn" and "sk-learn-0.24" are prose; a key has a long run, or one with a digit in it.
    runs = value[3:].replace("_", "-").split("-")
    return not is_placeholder(value) and any(
        len(run) >= 16 or (len(run) >= 8 and any(map(str.isdigit, run))) for run in runs
    )


def _is_aws_key(match: re.Match[str], value: str) -> bool:
    # Amazon's documentation ends its example ids in EXAMPLE.
    return not value.upper().endswith("EXAMPLE") and (value.isupper() or any(map(str.isdigit, value)))


def _is_bearer(match: re.Match[str], value: str) -> bool:
    return not is_harmless(value) and looks_random(value.rstrip("."))


def _is_basic(match: re.Match[str], value: str) -> bool:
    if value.islower():
        return False
    try:
        credentials = b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (Base64Error, UnicodeDecodeError):
        return False
    return ":" in credentials and credentials.isprintable()


def _is_header(match: re.Match[str], value: str) -> bool:
    if is_harmless(value):
        return False
    scheme = match["scheme"]
    # `Authorization: Bearer abc` is a header; "authorization: bearer tokens are ..." is prose.
    return (scheme is not None and value.islower() is False) or looks_random(value, shortest=6)


def _is_cookie(match: re.Match[str], value: str) -> bool:
    return not is_placeholder(value) and looks_random(value, shortest=16)


def _is_assignment(match: re.Match[str], value: str) -> bool:
    quoted = match["opening"] is not None
    return is_secret_assignment(
        match["name"],
        value,
        tight="=" in match["separator"] and not match["left"] and not match["right"],
        name_quoted=match["closing"] is not None,
        value_quoted=quoted,
        following="" if quoted else match.string[match.end() : match.end() + 1],
    )


def _is_parameter(match: re.Match[str], value: str) -> bool:
    # `?key=name` and `?sig=short` are common and harmless.
    if match["name"] in ("key", "sig", "signature") and len(value) < 16:
        return False
    return not is_harmless(value)


def _is_password_in_url(match: re.Match[str], value: str) -> bool:
    return not is_masked(value)


def _is_flag(match: re.Match[str], value: str) -> bool:
    return not is_harmless(value) and looks_random(value, shortest=6)


def _is_curl_user(match: re.Match[str], value: str) -> bool:
    start = match.start()
    command = match.string[max(0, start - _COMMAND_CHARACTERS) : start].rpartition("\n")[2]
    return "curl" in command and not value.isdigit() and not is_placeholder(value)


_NAME: Final = (
    "pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|apikey"
    "|(?:api|access|account|private|secret|signing|encryption|auth|master)[_ -]?key"
)
_NAME_MARKERS: Final = ("pass", "pwd", "secret", "token", "credential", "key")
_GAP: Final = r"(?:\s|\\[nrt]){1,4}"
_QUOTE: Final = r"""\\{0,3}["'`]"""
_BARE: Final = r"""[^\s"'`,;&<>(){}\[\]|\\]"""

SHAPES: Final = (
    # OpenAI, Anthropic, DeepSeek and whoever else begins with sk-
    Shape(
        "api-key",
        ("sk-",),
        re.compile(r"(?P<value>sk-(?<![A-Za-z0-9_-]sk-)[A-Za-z0-9_-]{8,}+)"),
        _is_generic_key,
    ),
    _key("github-token", "gh[pousr]_", 16, marker="gh"),
    _key("github-token", "github_pat_", 16),
    Shape(
        "aws-key-id",
        ("akia", "asia", "abia", "acca"),
        re.compile(r"(?P<value>a(?:ki|si|bi|cc)a(?<![a-z0-9]....)[a-z0-9]{16})(?![a-z0-9])"),
        _is_aws_key,
        folded=True,
    ),
    _key("gitlab-token", "gl(?:pat|ptt)-", 16, body="A-Za-z0-9_.-", marker="gl"),
    _key("gitlab-token", "gl[dr]t-", 16, body="A-Za-z0-9_.-", marker="gl"),
    _key("slack-token", "xox[abeoprs]-", 10, body="A-Za-z0-9-", marker="xox"),
    _key("slack-token", "xapp-", 16, body="A-Za-z0-9-"),
    Shape(
        "webhook-url",
        ("hooks.slack.com/", "/api/webhooks/"),
        re.compile(
            r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/)"
            r"(?P<value>[A-Za-z0-9_/-]{20,}+)"
        ),
        _is_real,
    ),
    _key("google-key", "AIza", 30, body="A-Za-z0-9_-"),
    _key("google-key", r"ya29\.", 16, body="A-Za-z0-9_-", marker="ya29."),
    _key("google-key", "GOCSPX-", 16, body="A-Za-z0-9_-"),
    _key("npm-token", "npm_", 20, body="A-Za-z0-9"),
    _key("hugging-face-token", "hf_", 20, body="A-Za-z0-9"),
    _key("stripe-key", "[sr]k_(?:live|test)_", 16, marker="k_"),
    _key("stripe-key", "whsec_", 16),
    _key("pypi-token", "pypi-", 32, body="A-Za-z0-9_-"),
    _key("docker-token", "dckr_pat_", 16, body="A-Za-z0-9_-"),
    _key("digitalocean-token", "do[opr]_v1_", 32, marker="_v1_"),
    _key("shopify-token", "shp(?:at|ca|pa|ss)_", 24, marker="shp"),
    _key("sendgrid-key", r"SG\.", 32, body="A-Za-z0-9_.-", marker="sg."),
    _key("twilio-key", "SK", 32, body="0-9a-f", marker="sk"),
    _key("databricks-token", "dapi", 32, body="0-9a-f"),
    _key("linear-key", "lin_api_", 24),
    _key("notion-token", "ntn_", 32),
    _key("groq-key", "gsk_", 24),
    _key("replicate-token", "r8_", 24),
    _key("xai-key", "xai-", 24, body="A-Za-z0-9"),
    _key("vault-token", r"hvs\.", 20, body="A-Za-z0-9_-", marker="hvs."),
    _key("grafana-token", "glsa_", 20),
    _key("doppler-token", r"dp\.pt\.", 24, marker="dp.pt."),
    _key("postman-key", "PMAK-", 24, body="A-Za-z0-9-"),
    _key("age-key", "AGE-SECRET-KEY-1", 24),
    _key("atlassian-token", "ATATT3", 24, body="A-Za-z0-9_-"),
    _key("tailscale-key", "tskey-", 16, body="A-Za-z0-9-"),
    _key("figma-token", "figd_", 20, body="A-Za-z0-9_-"),
    _key("supabase-token", "sbp_", 32),
    Shape("azure-secret", ("8q~",), re.compile(r"8Q~(?P<value>[A-Za-z0-9_.~-]{28,}+)"), _is_real),
    Shape(
        "telegram-token", (":aa",), re.compile(r"(?P<value>:AA(?<=[0-9]{8}:AA)[A-Za-z0-9_-]{30,}+)"), _is_real
    ),
    Shape(
        "jwt",
        ("eyj",),
        re.compile(
            r"(?P<value>eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{6,}+\."
            r"(?:eyJ[A-Za-z0-9_-]{6,}+\.[A-Za-z0-9_-]{6,}+|(?:[A-Za-z0-9_-]*+\.){3}[A-Za-z0-9_-]{6,}+))"
        ),
        _is_real,
    ),
    Shape(
        "authorization",
        ("authorization",),
        re.compile(
            rf"authorization(?:{_QUOTE})?\s{{0,3}}[:=]\s{{0,3}}(?:{_QUOTE})?"
            rf"(?:(?P<scheme>bearer|basic|token|apikey|digest|negotiate){_GAP})?(?P<value>{_BARE}{{3,}}+)"
        ),
        _is_header,
        folded=True,
    ),
    Shape(
        "bearer-token",
        ("bearer",),
        re.compile(rf"bearer(?<![a-z0-9]......){_GAP}(?:{_QUOTE})?(?P<value>[a-z0-9._~+/=-]{{8,}}+)"),
        _is_bearer,
        folded=True,
    ),
    Shape(
        "basic-credentials",
        ("basic",),
        re.compile(rf"basic(?<![a-z0-9].....){_GAP}(?P<value>[a-z0-9+/]{{8,}}+={{0,2}})"),
        _is_basic,
        folded=True,
    ),
    Shape(
        "cookie",
        ("cookie:",),
        re.compile(r"cookie:[ \t]{0,3}[^\s=;]{1,64}=(?P<value>[^\s;,\"']{16,}+)"),
        _is_cookie,
        folded=True,
    ),
    Shape(
        "password-in-url",
        ("://",),
        re.compile(r"""://[^\s/:@?#"'<>`]{0,128}:(?P<value>[^\s/@?#"'<>`]{1,256})@"""),
        _is_password_in_url,
    ),
    Shape(
        "query-parameter",
        ("?", "&"),
        re.compile(
            r"[?&](?:amp;)?(?P<name>(?:[a-z0-9]{1,16}+[_.-]){0,3}+[a-z]{0,16}?"
            r"(?:token|secret|password|passwd|passphrase|pwd|key|auth|authorization|credential|sig|signature))"
            r"=(?P<value>[^\s&\"'<>()\[\]#;,`|\\]{3,}+)"
        ),
        _is_parameter,
        folded=True,
    ),
    Shape(
        "named-secret",
        _NAME_MARKERS,
        re.compile(
            rf"(?P<name>{_NAME})(?P<closing>{_QUOTE})?\]?[*_]{{0,3}}(?P<left>[ \t]{{0,8}})"
            rf"(?P<separator>:=|={{1,3}}>?|:(?![:/]))[*_]{{0,3}}(?P<right>[ \t]{{0,8}})"
            rf"(?P<opening>{_QUOTE})?(?P<alone>(?<=[: \t*]))?"
            # An ampersand ends a value of a query string, not one that stands alone.
            rf"(?P<value>(?(opening)[^\"'`\\\r\n]{{1,}}+|(?(alone)(?:{_BARE}|&){{1,}}+|{_BARE}{{1,}}+)))"
        ),
        _is_assignment,
        folded=True,
    ),
    Shape(
        "named-secret",
        ("--",),
        re.compile(
            r"--(?<!---)(?:[a-z0-9]{1,16}+-){0,3}+(?:password|passwd|passphrase|token|secret|key(?<=api.key)|key(?<=apikey)"
            rf"|key(?<=access.key)|key(?<=secret.key))[ \t]{{1,4}}(?:{_QUOTE})?(?!-)(?P<value>{_BARE}{{6,}}+)"
        ),
        _is_flag,
        folded=True,
    ),
    Shape(
        "basic-credentials",
        ("curl",),
        re.compile(r"""(?:-u|--user)[ =]{1,2}["']?[^\s:"']{1,64}:(?P<value>[^\s"']{1,}+)"""),
        _is_curl_user,
    ),
    Shape(
        "netrc-password",
        ("machine",),
        re.compile(
            r"machine\s{1,9}[^\s]{1,256}\s{1,9}login\s{1,9}[^\s]{1,64}\s{1,9}password\s{1,9}(?P<value>[^\s]{1,}+)"
        ),
        _is_real,
    ),
)
