"""The commands that look: each shows one of the contract's read methods, to people or with `--json`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dsh_memory.cli.invocation import Invocation, UsageError
from dsh_memory.cli.output import answer, emit, emit_json, exit_code, narrate
from dsh_memory.cli.tables import cell, facts, table
from dsh_memory.contract import METHODS
from dsh_memory.text import visible

_SHORT_COMMIT = 7
_PARAMS_LIMIT = 16 * 1024 * 1024

Value = Mapping[str, Any]


def status(call: Invocation) -> int:
    """`dsh-memory status`: the memory in numbers."""
    envelope = call.service.status()
    if value := answer(call, envelope):
        last, preview = value["lastRun"], value["pendingPreview"]
        pairs = [
            ("memory", call.environment.memory_root),
            ("data files", value["dataFileCount"]),
            ("state", _state(value)),
            ("recoverable", value["recoverable"]),
            ("schema version", value["schemaVersion"]),
            ("legacy records", value["legacyFileCount"]),
            ("malformed files", value["malformedFileCount"]),
            ("last run", last and f"{last['runId']}  {last['status']}, {last['changedFileCount']} changed"),
            ("pending preview", preview and f"{preview['preview_id']}  until {preview['expires_at']}"),
        ]
        emit(*facts((name, "none" if shown is None else shown) for name, shown in pairs))
        if value["pendingMigration"]:
            narrate("Give the legacy records front matter with: dsh-memory migrate")
    return exit_code(envelope)


def health(call: Invocation) -> int:
    """`dsh-memory health`: whether all is well."""
    envelope = call.service.health()
    if value := answer(call, envelope):
        emit(
            *facts(
                [
                    ("memory root", value["memoryRoot"]),
                    ("root safe", value["rootSafe"]),
                    ("git available", value["gitAvailable"]),
                    ("data files", value["dataFileCount"]),
                    ("payload", "changed since the last commit" if value["payloadDirty"] else "clean"),
                    ("lock", _lock(value["operationLock"])),
                    ("active run", _active_run(value["activeRun"])),
                    ("interrupted run", _interrupted_run(value["interruptedRun"])),
                    ("pending previews", value["pendingPreviewCount"]),
                    ("journal readable", value["journalReadable"]),
                    *(("malformed", _malformed(record)) for record in value["malformedRecords"]),
                ]
            )
        )
        if value["interruptedRun"]:
            narrate("Finish or undo the interrupted run with: dsh-memory recover")
        elif value["payloadDirty"]:
            narrate("Commit what editors left with: dsh-memory save")
    return exit_code(envelope)


def runs(call: Invocation) -> int:
    """`dsh-memory runs`: the journal as a table."""
    asked = call.arguments
    envelope = call.service.runs(asked.limit, asked.operation, asked.status)
    if value := answer(call, envelope):
        rows = [
            (
                run.get("run_id"),
                run.get("started_at"),
                run.get("operation"),
                run.get("status"),
                run.get("changed_path_count"),
                (run.get("apply_commit") or "")[:_SHORT_COMMIT],
                run.get("error_code"),
            )
            for run in value["runs"]
        ]
        heads = ("run", "started", "operation", "status", "files", "commit", "error")
        _emit_rows(heads, rows, right=(4,), empty="No run matches.")
    return exit_code(envelope)


def previews(call: Invocation) -> int:
    """`dsh-memory previews`: the pending changes as a table."""
    envelope = call.service.previews()
    if value := answer(call, envelope):
        rows = [
            (
                preview["preview_id"],
                preview["created_at"],
                preview["expires_at"],
                preview["candidate_sessions"],
                len(preview["changed_paths"]),
            )
            for preview in value["previews"]
        ]
        heads = ("preview", "created", "expires", "sessions", "files")
        _emit_rows(heads, rows, right=(3, 4), empty="No preview is pending.")
    return exit_code(envelope)


def search(call: Invocation) -> int:
    """`dsh-memory search`: one line and a snippet for each match."""
    asked = call.arguments
    envelope = call.service.search(" ".join(asked.query), asked.limit, asked.scope)
    if value := answer(call, envelope):
        results = value["results"]
        head, *rows = table(
            ("score", "id", "type", "updated", "path"),
            [(hit["score"], hit["id"], hit["type"], hit["updated_at"], hit["path"]) for hit in results],
            right=(0,),
        )
        if results:
            emit(head)
        for row, hit in zip(rows, results, strict=True):
            emit(row, f"       {visible(hit['snippet'])}")
        narrate(f"{len(results)} of {value['count']} matches")
        _narrate_skipped(value)
    call.service.keep_index()
    return exit_code(envelope)


def context(call: Invocation) -> int:
    """`dsh-memory context`: records whole, as a model gets them."""
    asked = call.arguments
    envelope = call.service.context(" ".join(asked.query) or None, asked.limit, asked.scope)
    if value := answer(call, envelope):
        for record in value["records"]:
            heading = f"{record['citation']}  used {record['usage_count']}"
            content = visible(record["content"], keep_newlines=True).rstrip("\n")
            emit(visible(heading), content, *(["(cut at 4 KiB)"] if record["truncated"] else []), "")
        narrate(f"{value['count']} records")
        _narrate_skipped(value)
    call.service.keep_index()
    return exit_code(envelope)


def legacy(call: Invocation) -> int:
    """`dsh-memory legacy`: records without front matter."""
    envelope = call.service.legacy_records()
    if value := answer(call, envelope):
        rows = [
            (record["path"], record["id"], record["createdAt"], record["updatedAt"], record["bytes"])
            for record in value["records"]
        ]
        heads = ("path", "id", "created", "updated", "bytes")
        _emit_rows(heads, rows, right=(4,), empty="No legacy record.")
    return exit_code(envelope)


def settings(call: Invocation) -> int:
    """`dsh-memory settings`: the switch."""
    wanted = call.arguments.enabled
    envelope = call.service.get_settings() if wanted is None else call.service.set_enabled(wanted == "on")
    if value := answer(call, envelope):
        emit(f"memory is {'on' if value['enabled'] else 'off'}")
    return exit_code(envelope)


def call_method(call: Invocation) -> int:
    """`dsh-memory call`: any method of the contract, its envelope as it is."""
    name = call.arguments.method
    if name not in METHODS:
        raise UsageError(f"{name} is no method; there are: {', '.join(METHODS)}")
    envelope = call.service.call(name, _params(call.arguments.params))
    emit_json(envelope)
    return exit_code(envelope)


def _params(text: str | None) -> object:
    if text is None:
        return None
    from dsh_memory.hosts.jsonrpc import BadJson, strict_json

    try:
        params = strict_json(sys.stdin.buffer.read(_PARAMS_LIMIT) if text == "-" else text)
    except BadJson as error:
        raise UsageError(f"the request is no JSON: {error}") from None
    if not isinstance(params, dict):
        raise UsageError("the request must be a JSON object")
    return params


def _emit_rows(
    heads: tuple[str, ...], rows: Sequence[tuple[object, ...]], *, right: Iterable[int], empty: str
) -> None:
    if rows:
        emit(*table(heads, rows, right=right))
    else:
        narrate(empty)


def _state(value: Value) -> str:
    words = ["empty"] if value["empty"] else []
    words += ["changed since the last commit"] if value["targetDirty"] else ["clean"]
    return ", ".join(words)


def _lock(lock: Value | None) -> str:
    if lock is None:
        return "free"
    holder = f"{cell(lock['operation'])}, process {cell(lock['pid'])}, since {cell(lock['startedAt'])}"
    return holder if lock["active"] else f"left behind by {holder}"


def _active_run(run: Value | None) -> str:
    if run is None:
        return "none"
    return f"{run.get('run_id')}  {run.get('operation')}, phase {run.get('phase')}, {run.get('state')}"


def _interrupted_run(run: Value | None) -> str:
    return "none" if run is None else f"{run.get('run_id')}  {run.get('operation')}, phase {run.get('phase')}"


def _malformed(record: Value) -> str:
    line = "" if record["line"] is None else f":{record['line']}"
    return f"{record['path']}{line}  {record['code']}"


def _narrate_skipped(value: Value) -> None:
    if skipped := value.get("skipped"):
        narrate(f"{skipped} malformed files were left out; they are listed by: dsh-memory health")
