"""`backup`, `verify` and `doctor`: keeping a memory safe, and finding out what is wrong with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsh_memory.cli.invocation import Invocation
from dsh_memory.cli.output import DONE, FAILED, emit, emit_json, narrate
from dsh_memory.cli.tables import facts
from dsh_memory.environment import utc_now
from dsh_memory.text import visible

if TYPE_CHECKING:
    from dsh_memory.backup import BackupManifest
    from dsh_memory.cli.parser import Commands

_MARKS = {"good": "ok  ", "warning": "note", "bad": "BAD "}


def add_keeping_commands(commands: Commands) -> None:
    """The commands `backup`, `verify` and `doctor`."""
    backup = commands.group("backup", "Write the whole memory to one file, or restore it from one")
    export = backup.add("export", "keeping:export_backup", "Write a Git bundle and its manifest")
    export.add_argument("file", metavar="FILE", help="the bundle; its manifest is FILE.json")
    restore = backup.add("import", "keeping:import_backup", "Restore a memory from a bundle")
    restore.add_argument("file", metavar="FILE")
    restore.add_argument(
        "--target", required=True, metavar="DIR", help="the memory root to be; must not exist"
    )
    for act in (export, restore):
        act.add_argument("--dry-run", action="store_true", help="check everything and write nothing")
    verify = commands.add("verify", "keeping:verify", "Check the whole memory against itself and against Git")
    verify.add_argument(
        "--repair", action="store_true", help="mend what can be mended without losing anything"
    )
    commands.add("doctor", "keeping:doctor", "Check whether the surroundings are fit for a memory")


def export_backup(call: Invocation) -> int:
    """`dsh-memory backup export FILE`"""
    from dsh_memory.backup import export_backup as write_backup

    bundle = os.path.abspath(call.arguments.file)
    done = write_backup(call.environment, bundle, utc_now(), dry_run=call.arguments.dry_run)
    if done.uncommitted:
        narrate(
            f"note: edits of {len(done.uncommitted)} files are in no commit, so not in the backup: dsh-memory save"
        )
    return _tell(call, "bundle", done.bundle, done.manifest, dry_run=done.dry_run)


def import_backup(call: Invocation) -> int:
    """`dsh-memory backup import FILE --target DIR`"""
    from dsh_memory.backup import import_backup as restore_backup

    bundle, target = (os.path.abspath(path) for path in (call.arguments.file, call.arguments.target))
    done = restore_backup(bundle, target, dry_run=call.arguments.dry_run)
    if not done.described:
        narrate("note: no manifest stands beside the bundle; it was checked against itself alone.")
    return _tell(call, "target", done.target, done.manifest, dry_run=done.dry_run)


def verify(call: Invocation) -> int:
    """`dsh-memory verify`: 1 where an error is left."""
    from dsh_memory.verify import verify as check

    report = check(call.environment, utc_now, repair=call.arguments.repair)
    if call.wants_json:
        emit_json({"ok": True, "value": report.to_json()})
    else:
        emit(*(f"repaired  {visible(sentence)}" for sentence in report.repaired))
        emit(
            *(
                f"{fault.severity:<8}  {fault.kind}  {fault.subject}: {fault.message}"
                for fault in report.faults
            )
        )
        counts = ", ".join(f"{count} {what}" for what, count in report.checked.items())
        narrate(f"Looked at {counts}: {'no error' if report.ok else 'not all is well'}.")
        if any(fault.repairable for fault in report.faults):
            narrate("Some of it can be mended: dsh-memory verify --repair")
    return DONE if report.ok else FAILED


def doctor(call: Invocation) -> int:
    """`dsh-memory doctor`: 1 where something is bad."""
    from dsh_memory.doctor import examine

    checks = examine(call.environment, os.environ)
    if call.wants_json:
        emit_json({"ok": True, "value": {"checks": [check.to_json() for check in checks]}})
    else:
        for check in checks:
            emit(f"{_MARKS[check.state]}  {check.sentence}")
            if check.advice is not None:
                emit(f"      {check.advice}")
    return FAILED if any(check.state == "bad" for check in checks) else DONE


def _tell(call: Invocation, what: str, place: str, manifest: BackupManifest, *, dry_run: bool) -> int:
    if call.wants_json:
        emit_json({"ok": True, "value": {what: place, "dryRun": dry_run, "manifest": manifest.to_json()}})
        return DONE
    if dry_run:
        narrate("Nothing was written.")
    emit(
        *facts(
            [
                (what, place),
                ("head", manifest.head),
                ("commits", manifest.commit_count),
                ("files", len(manifest.payload_files)),
                ("bytes", manifest.payload_size_bytes),
            ]
        )
    )
    return DONE
