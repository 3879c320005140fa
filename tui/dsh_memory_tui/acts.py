"""How acts are spoken of: the question, the doing, and the word afterwards with the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsh_memory import visible
from dsh_memory_tui.messages import Act
from dsh_memory_tui.wording import plural, short

if TYPE_CHECKING:
    from dsh_memory.inspection import Plan


@dataclass(frozen=True, slots=True)
class Kind:
    """How one act is spoken of: the dialog's title, the button, what the title line says meanwhile."""

    title: str
    verb: str
    doing: str


KINDS: dict[str, Kind] = {
    "clear": Kind("Clear memory", "Clear", "clearing"),
    "rollback": Kind("Roll back a run", "Roll back", "rolling back"),
    "apply": Kind("Apply a preview", "Apply", "applying"),
    "discard": Kind("Discard a preview", "Discard", "discarding"),
    "migrate": Kind("Migrate legacy records", "Migrate", "migrating"),
    "recover": Kind("Recover an interrupted run", "Recover", "recovering"),
    "save": Kind("Save outside edits", "Save", "saving"),
    "enable": Kind("Switch memory", "Switch", "switching"),
    "write": Kind("Edit a record", "Save", "saving"),
    "restore": Kind("Restore a version", "Restore", "restoring"),
    "init": Kind("Create a memory repository", "Create", "creating"),
}


def act_of(kind: str, params: dict[str, Any], plan: Plan) -> Act:
    """The act that a confirmed plan allows."""
    return Act(kind, params, plan.expected_head, f"{KINDS[kind].doing}{_how_much(plan)}", plan.way_back)


def _how_much(plan: Plan) -> str:
    count = getattr(plan, "data_file_count", None)
    if count is None:
        paths = getattr(plan, "paths", None) or getattr(plan, "files", None)
        count = len(paths) if paths else None
    return f" {plural(count, 'file')}" if count else ""


def done_words(act: Act, value: dict[str, Any]) -> str:
    """What was done, in a sentence with numbers and ids, and how to undo it."""
    words = _done(act, value)
    return f"{words}\nUndo: {act.way_back}" if act.way_back else words


def _done(act: Act, value: dict[str, Any]) -> str:
    match act.kind:
        case "clear":
            if value["alreadyEmpty"]:
                return "Memory was empty already."
            return (
                f"Cleared {plural(value['clearedFileCount'], 'file')}, commit {short(value['clearCommit'])}."
            )
        case "rollback":
            return f"Rolled back {value['runId']}, commit {short(value['rollbackCommit'])}."
        case "apply":
            if value["status"] == "no_change":
                return "The preview changed nothing any more; it is gone."
            count = plural(len(value["changed_paths"]), "file")
            return f"Applied {count}, commit {short(value['apply_commit'])}."
        case "discard":
            return f"Discarded {value['previewId']}."
        case "migrate":
            if value["status"] == "no_change":
                return "There was nothing to migrate."
            return (
                f"Migrated {plural(value['migratedCount'], 'record')}, commit {short(value['applyCommit'])}."
            )
        case "enable":
            return (
                "Memory is on: agents see it."
                if value["enabled"]
                else "Memory is off: no prompt section, no sync."
            )
        case "recover":
            return _recovered(value)
        case "write" | "save":
            return f"Saved {plural(len(value.get('changedPaths', ())) or 1, 'file')} as a run."
        case "restore":
            return f"Restored {visible(value['path'])} as of {short(value['restoredCommit'])}."
        case "init":
            return "The repository stands."
        case _:
            return "Done."


def _recovered(value: dict[str, Any]) -> str:
    if value.get("nothingToDo"):
        return "There was nothing to recover."
    parts = [
        f"{plural(len(value.get(key, ())), 'run')} {words}"
        for key, words in (
            ("rolledForward", "finished"),
            ("rolledBack", "undone"),
            ("resolvedRuns", "resolved"),
        )
        if value.get(key)
    ]
    return f"Recovered: {', '.join(parts) or 'left-over locks removed'}."
