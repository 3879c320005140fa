"""`sync`, `transcript` and `preview create`: sessions become memory, and changes are put up for review."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dsh_memory.cli.invocation import Invocation, UsageError
from dsh_memory.cli.output import DONE, answer, emit, emit_json, exit_code, narrate
from dsh_memory.cli.tables import facts, outcome, table
from dsh_memory.environment import utc_now
from dsh_memory.text import visible

if TYPE_CHECKING:
    from dsh_memory.cli.parser import Commands
    from dsh_memory.sync.pipeline import SyncOptions, SyncReport
    from dsh_memory.sync.proposing import Maker
    from dsh_memory.sync.sessions import SessionLog

#: Given as the id where `--preview` stands alone.
_NEW = ""
_MINUTES = 30.0
_MAX_PATCH_BYTES = 16 * 1024 * 1024


def add_sync_commands(commands: Commands) -> None:
    """The commands `sync` and `transcript`."""
    sync = commands.add("sync", "syncing:sync", "Let an agent consolidate new sessions into the memory")
    acts = sync.add_mutually_exclusive_group()
    acts.add_argument("--list", action="store_true", help="only list the sessions that are due")
    acts.add_argument(
        "--dry-run", action="store_true", help="let the agent work on a copy and say what would change"
    )
    acts.add_argument(
        "--preview",
        nargs="?",
        const=_NEW,
        metavar="ID",
        help="put the change up for review instead of applying it",
    )
    acts.add_argument("--apply-preview", metavar="ID", help="the same as: preview apply ID --yes")
    acts.add_argument("--discard-preview", metavar="ID", help="the same as: preview discard ID --yes")
    acts.add_argument(
        "--print-timer", choices=("systemd", "launchd"), help="show an example of an hourly schedule"
    )
    sync.add_argument(
        "--agent-command",
        metavar="LINE",
        help="the program to run (else $DSH_MEMORY_AGENT, else $DSH_BIN or dsh)",
    )
    sync.add_argument(
        "--time-limit", type=_minutes, default=_MINUTES, metavar="MINUTES", help="for the agent (default 30)"
    )
    transcript = commands.add(
        "transcript", "syncing:transcript", "Show a session log as the agent gets to read it", json=False
    )
    transcript.add_argument(
        "file", metavar="FILE", help="session.jsonl.zstd or its JSON lines; - for standard input"
    )


def add_preview_creation(acts: Commands) -> None:
    """The command `preview create`."""
    create = acts.add("create", "syncing:create_preview", "Put a change of your own up for review")
    source = create.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--from", dest="folder", metavar="DIR", help="the payload as it stands in this folder"
    )
    source.add_argument("--patch", metavar="FILE", help="a unified diff; - for standard input")
    source.add_argument("--edit", dest="path", metavar="PATH", help="a file of the memory, in your editor")


def sync(call: Invocation) -> int:
    """`dsh-memory sync`: one run of the pipeline, or one of the acts beside it."""
    given = call.arguments
    if given.print_timer is not None:
        return _print_timer(call)
    if given.apply_preview is not None:
        return _finished(call, call.service.apply_preview(given.apply_preview))
    if given.discard_preview is not None:
        return _finished(call, call.service.discard_preview(given.discard_preview))
    if given.list:
        return _list(call)
    from dsh_memory.sync.pipeline import sync as consolidate

    report = consolidate(call.environment, utc_now, _options(call), os.environ, narrate)
    if call.wants_json:
        emit_json({"ok": True, "value": report.to_json()})
    else:
        emit(*_shown(report))
    return DONE


def transcript(call: Invocation) -> int:
    """`dsh-memory transcript FILE`; what had to be left out is narrated."""
    from dsh_memory.sync.sessions import SessionLog, open_session
    from dsh_memory.sync.transcript import transcript as paragraphs

    name = call.arguments.file
    log: SessionLog = SessionLog(sys.stdin.buffer, "-") if name == "-" else open_session(name)
    with log.stream:
        for paragraph in paragraphs(log.events()):
            emit(*paragraph.removesuffix("\n").split("\n"))
    for sentence in log.notes.sentences():
        narrate(f"note: {sentence}.")
    return DONE


def create_preview(call: Invocation) -> int:
    """`dsh-memory preview create`: from a folder, a patch, or an editor on a private copy."""
    from dsh_memory.sync.proposing import propose

    preview = propose(call.environment, utc_now, _maker(call))
    if call.wants_json:
        emit_json({"ok": True, "value": {"preview": preview}})
    elif preview is None:
        narrate("Nothing was changed, so there is no preview.")
    else:
        emit(*facts([("preview", preview["preview_id"]), ("expires", preview["expires_at"])]))
        emit(*(visible(path) for path in preview["changed_paths"]))
    return DONE


def _maker(call: Invocation) -> Maker:
    from dsh_memory.sync.proposing import from_folder, from_patch

    given = call.arguments
    if given.folder is not None:
        return from_folder(os.path.abspath(given.folder))
    if given.patch is not None:
        return from_patch(_read_patch(given.patch))
    return _edited(given.path)


def _edited(path: str) -> Maker:
    from dsh_memory.cli.editing import editor_command, run_editor
    from dsh_memory.sync.proposing import copied_file

    editor = editor_command()

    def make(copy: str) -> None:
        status = run_editor([*editor, copied_file(copy, path)])
        if status:
            raise UsageError(f"the editor {shlex.quote(editor[0])} ended with {status}; nothing was put up")

    return make


def _read_patch(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(_MAX_PATCH_BYTES + 1)
        with open(name, "rb") as file:
            return file.read(_MAX_PATCH_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the patch cannot be read: {os.strerror(error.errno or 0)}") from None


def _options(call: Invocation) -> SyncOptions:
    from dsh_memory.sync.pipeline import SyncOptions

    given = call.arguments
    return SyncOptions(
        dry_run=given.dry_run,
        preview=given.preview is not None,
        preview_id=given.preview or None,
        agent=given.agent_command,
        time_limit_seconds=given.time_limit * 60,
    )


def _list(call: Invocation) -> int:
    from dsh_memory.sync.pipeline import list_candidates

    window, sessions = list_candidates(call.environment, utc_now)
    rows = [
        {
            "path": session.path,
            "bytes": session.size,
            "last_written": datetime.fromtimestamp(session.mtime_ns // 10**9, UTC).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            ),
        }
        for session in sessions
    ]
    for note in window.notes:
        narrate(note)
    if call.wants_json:
        emit_json({"ok": True, "value": {"count": len(rows), "sessions": rows}})
    elif rows:
        emit(
            *table(
                ("LAST WRITTEN", "BYTES", "SESSION"), [list(row.values())[::-1] for row in rows], right=(1,)
            )
        )
    else:
        narrate("No session is due.")
    return DONE


def _print_timer(call: Invocation) -> int:
    from dsh_memory.sync.timers import timer_text

    path = os.environ.get("PATH", os.defpath)
    emit(*timer_text(call.arguments.print_timer, call.environment, path).removesuffix("\n").split("\n"))
    return DONE


def _finished(call: Invocation, envelope: object) -> int:
    if value := answer(call, envelope):  # type: ignore[arg-type]
        emit(*outcome(value))
    return exit_code(envelope)  # type: ignore[arg-type]


def _shown(report: SyncReport) -> list[str]:
    pairs = [
        ("status", report.status),
        ("run", report.run_id),
        ("preview", report.preview_id),
        (
            "sessions",
            f"{report.candidates} due, {report.processed} given to the agent, {report.skipped} skipped",
        ),
        ("commit", report.apply_commit),
    ]
    lines = facts([pair for pair in pairs if pair[1] is not None])
    lines += [f"  {visible(path)}" for path in report.changed_paths]
    return [*lines, *(visible(sentence) for sentence in (*report.reasons, *report.notes))]


def _minutes(text: str) -> float:
    minutes = float(text)
    if not 0 < minutes <= 24 * 60:
        raise ValueError
    return minutes
