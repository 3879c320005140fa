"""How a check is broken: a rule by the kind of its statement, by hand where the kind does not tell."""

from __future__ import annotations

import ast
from typing import Final

from tests.reliability.guards.markers import Guarded, Marker


class Unbreakable(Exception):
    """No rule fits the statement that a mark stands before."""


#: Their condition lets something happen, and what it holds back is the other case: it becomes true.
_ALLOWING: Final = frozenset(
    {
        "body-limit",
        "exactly-this-record",
        "head-moved",
        "inert-text",
        "open-reads-loopback",
        "owner-provably-gone",
        "release-own-inode-only",
        "rollout-paths",
        "settings-lock-same-inode",
        "verify-before-delete",
    }
)

#: Returned predicates that answer whether something is held back.
_REFUSING: Final = frozenset({"deleted-is-hidden"})

#: The text after the mark, and what stands in its place when the check is gone.
_BY_HAND: Final = {
    "agent-environment": ("    for name in re.split(", "    kept = dict(environ)\n    for name in re.split("),
    "all-refs-or-none": (
        '    git.run(\n        "update-ref", "-m", message, "--stdin", "-z", stdin=b"".join(lines), '
        "extra_environment=environment\n    )",
        "    for line in lines:\n"
        '        git.run("update-ref", "-m", message, "--stdin", "-z", stdin=line, extra_environment=environment)',
    ),
    "api-secret-scan": ("findings = scan(file, data, allowed)", "findings = []"),
    "bounded-staging": (
        "if added > MAX_ADDED_FILES:",
        "if True:\n                continue\n            if added > MAX_ADDED_FILES:",
    ),
    "capture-before-overwrite": ("        if dirty:\n", "        dirty = {}\n        if dirty:\n"),
    "client-path": ('if "\\0" in form:', 'if True:\n            continue\n        if "\\0" in form:'),
    "closed-streams": ("stream or open(os.devnull, mode)", "stream"),
    "compare-and-swap": ("new.encode(), old.encode())", 'new.encode(), b"")'),
    "docs-on-loopback": ('if not local or not is_loopback(host.strip("[]").lower()):', "if False:"),
    "exact-id-only": (
        "given.target, ForgetRequest",
        "_guessed(api, given.target), ForgetRequest",
    ),
    "folder-is-no-link": ("if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):", "if False:"),
    "kill-the-whole-group": ("_signal_group(process.pid, signal.SIGKILL)", "process.kill()"),
    "lock-outlives-the-parent": ("pass_fds=(descriptor,),", ""),
    "log-no-token": ('TOKEN_PATTERN.sub("[token]", scope["path"])', 'scope["path"]'),
    "mcp-marks-foreign-text": ('disarmed(foreign)}" if foreign', 'foreign}" if foreign'),
    "never-replace": (
        "outcome = _renameat_exclusive(source_folder, source, target_folder, target)",
        "outcome = True\n    os.rename(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder)",
    ),
    "init-replaces-nothing": (
        "return rename_exclusive(sync, temporary, folder, name)",
        "os.rename(temporary, name, src_dir_fd=sync, dst_dir_fd=folder)\n        return True",
    ),
    "no-filters": ("filters = sorted({", "filters = set() and sorted({"),
    "no-hidden-text": ("reasons += _misleading(file)", "pass"),
    "no-mass-deletion": ("gone = _deleted(files)", "gone = []"),
    "paste-refused": ("event.prevent_default()", "pass"),
    "path-on-every-door": ("if fault is not None:", "if False:"),
    "prompt-delimiters": ("text = disarmed(text)", "pass"),
    "recheck-before-moving": ("if path is not None:", "if False:"),
    "recheck-record-before-moving": ("if path is not None:", "if False:"),
    "regular-file-after-open": ("if not stat.S_ISREG(status.st_mode):", "if False:"),
    "sealed-config": ("_SEALED_CONFIG = {", "_SEALED_CONFIG = {} and {"),
    "sealed-environment": ("environment = {", "environment = dict(os.environ) or {"),
    "sealed-import": ('if name.startswith("GIT_")}', 'if name.startswith("GIT_PYTHON_")}'),
    "segment-checksum": ("if zlib.crc32(body) != checksum:", "if False:"),
    "stdout-carries-frames-only": ("requests, frames = os.dup(0), os.dup(1)", "return 0, 1"),
    "token-constant-time": (
        "hmac.compare_digest(_digest(presented), digest)",
        "_digest(presented) == digest",
    ),
    "token-unknown-restriction": (
        "Token(**values)",
        "Token(**{key: values[key] for key in values if key in Token.__dataclass_fields__})",
    ),
    "tool-public-keys": ('"skipped")', '"skipped", "usageRecorded")'),
}

#: What the broken text of one file needs beside it.
_APPENDED: Final = {
    "exact-id-only": (
        "\n\ndef _guessed(api, target):\n"
        "    with api.memories.reading() as known:\n"
        "        return next((each.id for each in known if each.id.startswith(target)), target)\n"
    ),
}

#: How many characters after its mark a check that is broken by hand may stand.
_REACH: Final = 1200


def broken(source: str, marker: Marker) -> str:
    """The file's text with this one check gone; raises Unbreakable."""
    start = _offset(source, marker.line)
    by_hand = _BY_HAND.get(marker.name)
    if by_hand is not None:
        old, new = by_hand
        at = source.find(old, start, start + _REACH)
        if at < 0:
            raise Unbreakable(f"{marker.file}:{marker.line}: {marker.name}: the text to replace is not there")
        changed = source[:at] + new + source[at + len(old) :] + _APPENDED.get(marker.name, "")
    else:
        changed = _by_rule(source, marker)
    try:
        ast.parse(changed)
    except SyntaxError as error:
        raise Unbreakable(f"{marker.file}:{marker.line}: {marker.name}: {error}") from error
    return changed


def _by_rule(source: str, marker: Marker) -> str:
    node = marker.guarded
    if isinstance(node, ast.If):
        held = "True" if marker.name in _ALLOWING else "False"
        return _replaced(source, node.test, held)
    if isinstance(node, ast.Return) and node.value is not None and _is_predicate(node.value):
        return _replaced(source, node.value, str(marker.name not in _REFUSING))
    if isinstance(node, ast.ExceptHandler):
        return _replaced(source, node.body, "pass")
    if isinstance(node, ast.Raise | ast.For | ast.Try) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        return _replaced(source, node, "pass")
    raise Unbreakable(f"{marker.file}:{marker.line}: {marker.name}: no rule for {_kind(node)}")


def _is_predicate(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("all", "any")
    negated = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
    return negated or isinstance(value, ast.BoolOp | ast.Compare)


def _kind(node: Guarded | None) -> str:
    return "no statement" if node is None else type(node).__name__


def _replaced(source: str, nodes: ast.AST | list[ast.stmt], text: str) -> str:
    first, last = (nodes, nodes) if isinstance(nodes, ast.AST) else (nodes[0], nodes[-1])
    start = _offset(source, first.lineno, first.col_offset)  # type: ignore[attr-defined]
    end = _offset(source, last.end_lineno, last.end_col_offset)  # type: ignore[attr-defined]
    return source[:start] + text + source[end:]


def _offset(source: str, line: int, column_in_bytes: int = 0) -> int:
    """The place in the text of a 1-based line and a column as `ast` counts it."""
    lines = source.split("\n")
    before = lines[line - 1].encode()[:column_in_bytes].decode()
    return sum(len(each) + 1 for each in lines[: line - 1]) + len(before)
