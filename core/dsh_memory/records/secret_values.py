"""Telling a secret value from a placeholder, a reference, a type name, a path or plain prose."""

from __future__ import annotations

import re
from typing import Final

_LONGEST_HARMLESS: Final = 512
_MASK: Final = re.compile(
    r"(?:[a-z]{2,12}[-_.](?:[a-z]{2,8}[-_])?)?[x*•.…_?#-]+|\[?redacted\]?|[<$%{(].*|.*(?:\$\{|\{\{|<[a-z]).*",
    re.IGNORECASE | re.DOTALL,
)
_WORDS: Final = re.compile(
    r"(?:(?:your|my|the|a|an|some|user|client|app|db|test|fake|dummy|example|sample|demo|new|old|this|insert|enter|put"
    r"|add|personal|access|api|auth|secret|private|bearer|jwt|oauth|refresh|actual|real|own|provider|service|hf|github"
    r"|openai|anthropic)[ _-]?)*"
    r"(?:passwords?|passwd|passphrase|pwd|secrets?|tokens?|keys?|credentials?|apikey|authorization|value|name|id)"
    r"(?:[ _-]?(?:here|value|goes[ _-]here|placeholder|name))?"
    r"|change[_-]?me|todo|tbd|fixme|placeholder",
    re.IGNORECASE,
)
_CODE: Final = """
true false null none nil undefined yes no on off empty unset missing optional required string
str text bytes int integer number float bool boolean object array list dict map any void self
this values names default hidden masked encrypted disabled enabled invalid valid inherit input
type bearer basic digest header headers auth authentication scheme schemes field fields param
params and or is are was the that which for from oauth jwt opaque secretstr identifier ident
keyword symbol punctuation literal operator
"""
_CODE_WORDS: Final = frozenset(_CODE.split())
_TECHNICAL: Final = re.compile(
    r"u?int\d+(?:_t)?|[iuf]\d+|float\d+|sha-?\d+(?:[:=_-].*)?|md5|base-?\d+(?:[-_]\w+)?|utf-?\d+|oauth-?\d.*"
    r"|https?\d?(?:[:/].*)?|[rhep]s\d{3}|ed\d+|x\.?509|rfc[ -]?\d.*"
    r"|v?\d+(?:[.,:/-]\d+)*(?:px|ms|[smhd]|%|[kmg]i?b?)?"
    r"|\d{4}-\d\d-\d\d.*|argon2\w*|bcrypt\d*|pbkdf2.*|aes-?\d+.*|0x[0-9a-f]{1,8}"
    r"|(?:\.{0,2}|~)/[\w.@+-]+(?:/[\w.@+-]*)+"
    r"|[\w.-]+(?:/[\w.-]+)*\.(?:pem|key|txt|json|ya?ml|env|md|py|ts|js|sh|toml)"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::|->)[A-Za-z_][A-Za-z0-9_]*)+")
_SNAKE: Final = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)+")
_SLUG: Final = re.compile(r"[a-z]+[0-9]{0,2}(?:-[a-z]*[0-9]{0,2})+")
_LETTER: Final = re.compile("[A-Za-z]")
_DIGIT: Final = re.compile("[0-9]")
_SYMBOL: Final = re.compile(r"[!@$%^&*+=]")
_SAMPLES: Final = frozenset(
    {"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY", "DEMO_KEY"}
)
"""Example keys of Amazon's and NASA's documentation."""


def is_masked(value: str) -> bool:
    """Whether a value is nothing but a mask (`xxxx`, `***`) or a reference (`$TOKEN`, `<token>`, `{{ token
    }}`).
    """
    return not value or (len(value) <= _LONGEST_HARMLESS and _MASK.fullmatch(value) is not None)


def is_placeholder(value: str) -> bool:
    """Whether a value only stands for a secret: masked, a documented example, or words such as
    `your-token`.
    """
    return is_masked(value) or value in _SAMPLES or _fits(_WORDS, value)


def is_harmless(value: str) -> bool:
    """Whether a value beside a secret's name is a placeholder, a type, a number, a date, a path or a word
    of code.
    """
    stripped = value.rstrip(".:!?*")
    return is_placeholder(value) or stripped.lower() in _CODE_WORDS or _fits(_TECHNICAL, stripped)


def looks_random(value: str, *, shortest: int = 8) -> bool:
    """Whether a bare word is more than prose: letters with digits, capitals inside it, or twenty letters
    on end.
    """
    if len(value) < shortest:
        return False
    if _is_mixed(value):
        return True
    return value.isalpha() and (
        len(value) >= 20 or not (value.islower() or value.isupper() or value[1:].islower())
    )


def is_secret_assignment(
    name: str,
    value: str,
    *,
    tight: bool,
    name_quoted: bool,
    value_quoted: bool,
    following: str,
) -> bool:
    """Whether a name such as `api_key` is given a secret value.

    `tight` is `name=value` without spaces; `following` is the character after an unquoted value.
    """
    password = name.lower().startswith(("pass", "pwd"))
    if password and value.isdigit() and len(value) >= 6:
        return True
    if is_harmless(value):
        return False
    if value_quoted:
        if " " in value or len(value) < 4:
            return False
        # A lexer's `token = "while"` is no secret; `"token": "abcd"` in a document is.
        return name_quoted or name.lower() != "token" or _is_mixed(value) or len(value) >= 16
    if following in ("(", "[") or _fits(_REFERENCE, value) or _fits(_SNAKE, value):
        return False
    if tight:
        return len(value) >= 6 or (len(value) >= 4 and _is_mixed(value))
    # `secret: db-login-2` names an object; only a password may look like that.
    if not password and _fits(_SLUG, value):
        return False
    stripped = value.rstrip(".:!?*")
    return len(stripped) >= 6 and (_is_mixed(stripped) or _SYMBOL.search(stripped) is not None)


def _fits(pattern: re.Pattern[str], value: str) -> bool:
    return len(value) <= _LONGEST_HARMLESS and pattern.fullmatch(value) is not None


def _is_mixed(value: str) -> bool:
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None
