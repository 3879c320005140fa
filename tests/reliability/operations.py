"""Every operation that changes something on disk, as a sweep does it: how its scene is made, and the act.

    python -m tests.reliability.operations NAME FOLDER

does the act in a process of its own and prints its envelope as one line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from dsh_memory.environment import utc_now
from dsh_memory.errors import MemoryFailure
from dsh_memory.service import MemoryService, failed
from tests.reliability.scenes import Scene
from tests.support import fake_agent
from tests.support.repositories import record

PREVIEW = "20260820T110000Z-a1b2c3d4"
DOOMED = record("doomed", "Nobody may read this again.\n")
_ARGUMENT = "argument.json"
_FILES = {
    "handbook/kept.md": record("kept", "Kept text.\n"),
    "handbook/changed.md": record("changed", "Old text.\n"),
    "rollouts/legacy.md": "old note without a header\n",
    "summary.md": "# Summary\n",
    ".last-sync": "1\n",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """`prepare` brings a scene to where there is something to do and returns what `act` needs to know.

    `erases` says that bytes go for good; `outside` that nothing in the memory root changes.
    """

    name: str
    prepare: Callable[[Scene], Any]
    act: Callable[[Scene, Any], dict[str, Any]]
    erases: bool = False
    outside: bool = False

    def template(self, folder: Path) -> Scene:
        """A scene that is ready for the act."""
        scene = Scene.create(folder, _FILES)
        argument = self.prepare(scene)
        (folder / _ARGUMENT).write_text(json.dumps(argument))
        return scene

    def carry_out(self, scene: Scene) -> dict[str, Any]:
        """The envelope of the act, done in this process."""
        argument = json.loads((scene.folder / _ARGUMENT).read_text())
        try:
            return self.act(scene, argument)
        except MemoryFailure as failure:
            return dict(failed(failure))

    def command(self, scene: Scene) -> list[str]:
        """The act as a process of its own."""
        return [sys.executable, "-m", "tests.reliability.operations", self.name, str(scene.folder)]


def _service(scene: Scene) -> MemoryService:
    return MemoryService(scene.environment)


def _dirty(scene: Scene) -> None:
    scene.memory.write("handbook/changed.md", record("changed", "Edited, in no commit.\n"))
    scene.memory.write("handbook/new.md", record("new", "New, in no commit.\n"))


def _cleared(scene: Scene) -> str:
    answer = _service(scene).clear("DELETE_MEMORY")
    return str(answer["value"]["runId"]) if answer["ok"] else ""


def _put_up(scene: Scene) -> None:
    changes = {
        "handbook/kept.md": None,
        "handbook/changed.md": record("changed", "New text.\n"),
        "handbook/x/y.md": record("y"),
    }
    scene.memory.write_preview(PREVIEW, changes, created_at=utc_now())


def _due_session(scene: Scene) -> None:
    import zstandard

    path = scene.dsh_home / "sessions" / "--work--" / "due" / "session.jsonl.zstd"
    path.parent.mkdir(parents=True)
    lines = [
        {"type": "session", "version": 0, "id": "due", "cwd": "/home/ada/work"},
        {"type": "user/message", "data": {"content": [{"type": "text", "text": "Use TypeScript."}]}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_bytes(zstandard.ZstdCompressor().compress(text.encode()))
    scene.memory.set_times(utc_now() - timedelta(days=1))
    import os

    two_hours_ago = (utc_now() - timedelta(hours=2)).timestamp()
    os.utime(path, (two_hours_ago, two_hours_ago))


def _sync(scene: Scene, _: Any) -> dict[str, Any]:
    import os

    from dsh_memory.sync.pipeline import SyncOptions, sync

    command = f"'{sys.executable}' '{fake_agent.__file__}' good"
    options = SyncOptions(agent=command, time_limit_seconds=30.0)
    report = sync(scene.environment, utc_now, options, os.environ, lambda _: None)
    return {"ok": True, "value": report.to_json()}


def _api(act: Callable[[Any], dict[str, Any]]) -> Callable[[Scene, Any], dict[str, Any]]:
    def do(scene: Scene, _: Any) -> dict[str, Any]:
        from dsh_memory.api.failures import ApiFailure
        from dsh_memory.api.operations import MemoryApi
        from dsh_memory.api.store import MemoryStore

        store = MemoryStore(scene.environment)
        try:
            return {"ok": True, "value": act(MemoryApi(store))}
        except ApiFailure as failure:
            return {"ok": False, "error": {"code": failure.code, "message": failure.message}}
        finally:
            store.close()

    return do


def _remember(api: Any) -> dict[str, Any]:
    from dsh_memory.api.jobs import Replay
    from dsh_memory.api.models import RememberRequest
    from dsh_memory.api.values import Caller

    request = RememberRequest(memory_id="remembered", content="The build is blue.", path="projects/alpha")
    answer: dict[str, Any] = api.writing.remember(Caller(), request, Replay("key-1", "fingerprint"))
    return answer


def _bring_in(api: Any) -> dict[str, Any]:
    from dsh_memory.api.models import ImportRequest
    from dsh_memory.api.values import Caller

    lines = [{"id": f"line-{number}", "content": f"Line {number}.", "path": "p"} for number in range(3)]
    request = ImportRequest(jsonl="".join(json.dumps(line) + "\n" for line in lines))
    answer: dict[str, Any] = api.moving.bring_in(Caller(), request)
    return answer


def _doomed(scene: Scene) -> None:
    scene.memory.write("handbook/doomed.md", DOOMED.replace("again", "ever"))
    scene.memory.commit("The doomed record's first text")
    scene.memory.write("handbook/doomed.md", DOOMED)
    scene.memory.commit("The doomed record")


def _hard_delete(api: Any) -> dict[str, Any]:
    from dsh_memory.api.models import ForgetRequest
    from dsh_memory.api.values import Caller

    answer: dict[str, Any] = api.writing.forget(Caller(), "doomed", ForgetRequest(mode="hard_delete"))
    return answer


def restored(scene: Scene) -> Path:
    """Where `import` puts the memory."""
    return scene.folder / "restored"


def _exported(scene: Scene) -> None:
    from dsh_memory.backup import export_backup

    export_backup(scene.environment, str(scene.folder / "backup.bundle"), utc_now())


def _import(scene: Scene, _: Any) -> dict[str, Any]:
    from dsh_memory.backup import import_backup

    done = import_backup(str(scene.folder / "backup.bundle"), str(restored(scene)))
    return {"ok": True, "value": {"target": done.target}}


def _switched_on(scene: Scene) -> None:
    (scene.dsh_home / "settings.yaml").write_text("# mine\nmemory:\n  enabled: true\nother: 1\n")


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("clear", _dirty, lambda scene, _: dict(_service(scene).clear("DELETE_MEMORY"))),
        Operation(
            "rollback", _cleared, lambda scene, run: dict(_service(scene).rollback(run, "ROLLBACK_MEMORY"))
        ),
        Operation("apply", _put_up, lambda scene, _: dict(_service(scene).apply_preview(PREVIEW))),
        Operation(
            "migrate", lambda _: None, lambda scene, _: dict(_service(scene).migrate_legacy(dry_run=False))
        ),
        Operation("sync", _due_session, _sync),
        Operation("write", lambda _: None, _api(_remember)),
        Operation("bring-in", lambda _: None, _api(_bring_in)),
        Operation("purge", _doomed, _api(_hard_delete), erases=True),
        Operation("import", _exported, _import, outside=True),
        Operation(
            "settings", _switched_on, lambda scene, _: dict(_service(scene).set_enabled(False)), outside=True
        ),
        Operation("usage", lambda _: None, lambda scene, _: dict(_service(scene).context("text"))),
    )
}


def main() -> None:
    """Does one act in this process."""
    name, folder = sys.argv[1:]
    print(json.dumps(OPERATIONS[name].carry_out(Scene(Path(folder)))), flush=True)


if __name__ == "__main__":
    main()
