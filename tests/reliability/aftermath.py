"""What must hold of a scene after its operation was killed or refused: before recovery, after it, and ever after."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

from dsh_memory.environment import Environment, utc_now
from dsh_memory.records.metadata import Record, read_record
from dsh_memory.repository.view import read_records
from dsh_memory.service import MemoryService
from dsh_memory.verify import verify
from tests.reliability.invariants import (
    assert_clean,
    assert_sound,
    committed_payload,
    reachable_blobs,
)
from tests.reliability.operations import DOOMED, Operation, restored
from tests.reliability.scenes import Ended, Scene, comparable
from tests.reliability.tracing import Point, learn
from tests.support.repositories import MemoryRepository, record


class Lost(AssertionError):
    """Something that must hold did not; the text says what."""


@dataclass(frozen=True, slots=True)
class Learned:
    """An operation, its scene before the act, its disk-changing calls, and the payload before and after it."""

    operation: Operation
    template: Scene
    points: tuple[Point, ...]
    old_bytes: Mapping[str, bytes]
    old: Mapping[str, bytes]
    new: Mapping[str, bytes]
    old_settings: bytes | None
    new_settings: bytes | None


def learned(operation: Operation, folder: Path) -> Learned:
    """Does the operation undisturbed once, below `folder`, and notes what it does."""
    template = operation.template(folder / "template")
    scene = template.copied_to(folder / "learning")
    ended, points = learn(scene, operation.command(scene))
    if not ended.acknowledged:
        raise Lost(f"{operation.name} does not work undisturbed: {ended.output} {ended.errors}")
    old = template.memory.live_payload()
    facts = Learned(
        operation,
        template,
        tuple(points),
        old,
        comparable(old),
        comparable(scene.memory.live_payload()),
        _settings(template),
        _settings(scene),
    )
    scene.remove()
    return facts


def check_killed(facts: Learned, scene: Scene, ended: Ended) -> None:
    """Checks a scene whose process group died; raises Lost."""
    _check_health_of_the_dead(scene)
    _check_reads(facts, scene)
    recovered = scene.call("recover", "--yes", "--json")
    require(recovered.acknowledged, f"recover failed: {recovered.output} {recovered.errors}")
    _check_state(facts, scene, acknowledged=ended.acknowledged, refused=False)
    _check_afterwards(facts, scene)


def check_refused(facts: Learned, scene: Scene, ended: Ended, *, git_may_leave_locks: bool = False) -> None:
    """Checks a scene whose operation met a fault and lived: it said so or went on, and nobody has to mend
    anything.

    Where Git itself could not remove a lock file, the next change waits until that is ten seconds old.
    """
    envelope = ended.envelope
    require(
        ended.status == 0 and envelope is not None and "Traceback" not in ended.output + ended.errors,
        f"no envelope, or a traceback: {ended.status} {ended.output} {ended.errors[-800:]}",
    )
    error = envelope.get("error") if envelope is not None else None
    if error is not None:
        require(error.get("detail") != "unexpected" and bool(error.get("code")), f"no stable code: {error}")
    if git_may_leave_locks:
        for lock in (scene.memory.root / ".git").rglob("*.lock"):
            _age(lock)
    if (scene.memory.root / ".sync" / "active-run.json").exists():
        # Something is left to do, which the next change does: meanwhile readers read HEAD, and health says so.
        _check_health_of_the_dead(scene)
        _check_reads(facts, scene)
        recovered = MemoryService(scene.environment).recover()
        require(recovered["ok"], f"recover failed: {recovered}")
    _check_state(facts, scene, acknowledged=ended.acknowledged, refused=error is not None)
    _check_afterwards(facts, scene)


def require(holds: bool, sentence: str) -> None:
    """Raises Lost with the sentence unless it holds."""
    if not holds:
        raise Lost(sentence)


# --- before recovery ------------------------------------------------------------------------------


def _check_health_of_the_dead(scene: Scene) -> None:
    envelope = MemoryService(scene.environment).health()
    require(envelope["ok"], f"health failed before recovery: {envelope}")
    if not envelope["ok"]:
        return
    health = envelope["value"]
    sync = scene.memory.root / ".sync"
    if (sync / "active-run.json").exists():
        run = health["activeRun"]
        told = run is not None and run["state"] == "interrupted" and health["needsManualRecovery"]
        require(told, f"health hides the dead run: {health}")
    if (sync / "operation.lock").exists():
        lock = health["operationLock"]
        require(lock is not None and not lock["active"], f"health hides the dead holder's lock: {health}")


def _check_reads(facts: Learned, scene: Scene) -> None:
    service = MemoryService(scene.environment)
    for envelope in (
        service.status(),
        service.search("text", scope="all"),
        service.runs(),
        service.previews(),
    ):
        require(envelope["ok"], f"a read failed before recovery: {envelope}")
    with scene.memory.open() as repo:
        found = read_records(repo, utc_now(), "all")
    seen = {each.path: each.body for each in found.records}
    # While a change is carried out, readers read HEAD, which edits in no commit are not in.
    allowed = (
        _bodies(facts.old_bytes),
        _bodies(facts.new),
        _bodies(committed_payload(facts.template.memory)),
    )
    require(
        comparable(seen) in [comparable(bodies) for bodies in allowed] and not found.malformed,
        f"a reader saw a half state before recovery: {sorted(seen)}",
    )


def _bodies(payload: Mapping[str, bytes]) -> dict[str, bytes]:
    records = [read_record(path, data) for path, data in payload.items() if path != "summary.md"]
    return {each.path: each.body for each in records if isinstance(each, Record)}


# --- old or new -----------------------------------------------------------------------------------


def _check_state(facts: Learned, scene: Scene, *, acknowledged: bool, refused: bool) -> None:
    live = comparable(scene.memory.live_payload())
    require(live in (facts.old, facts.new), f"neither the old nor the new payload: {sorted(live)}")
    require(not acknowledged or live == facts.new, "an acknowledged change is not there")
    require(not refused or live == facts.old, "a refused change was made")
    settings = _settings(scene)
    require(settings in (facts.old_settings, facts.new_settings), f"mixed settings: {settings!r}")
    require(not acknowledged or settings == facts.new_settings, "an acknowledged setting is not there")
    if facts.old != facts.new and live == facts.new:
        assert_clean(scene.memory)
    _check_bytes(facts, scene)


def _check_bytes(facts: Learned, scene: Scene) -> None:
    reachable = reachable_blobs(scene.memory)
    live = set(scene.memory.live_payload().values())
    for path, data in facts.old_bytes.items():
        if facts.operation.erases and b"id: doomed\n" in data:
            continue
        require(data in live or _blob(data) in reachable, f"the bytes of {path} are gone")


def _check_erased(scene: Scene) -> None:
    objects = scene.memory.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").decode()
    left = [text for text in (DOOMED, DOOMED.replace("again", "ever")) if _blob(text.encode()) in objects]
    require(not left, f"erased bytes are still an object: {left}")


def _blob(data: bytes) -> str:
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _settings(scene: Scene) -> bytes | None:
    path = scene.dsh_home / "settings.yaml"
    return path.read_bytes() if path.exists() else None


# --- ever after -----------------------------------------------------------------------------------


def _check_afterwards(facts: Learned, scene: Scene) -> None:
    """The operation that was not done is done now, any other goes on, and all is as it should be."""
    operation = facts.operation
    _let_time_pass(scene)
    if operation.name == "import":
        _check_import(facts, scene)
    if comparable(scene.memory.live_payload()) != facts.new or _settings(scene) != facts.new_settings:
        again = scene.run(operation.command(scene))
        require(again.acknowledged, f"the retry failed: {again.output} {again.errors[-800:]}")
        _check_state(facts, scene, acknowledged=True, refused=False)
    service = MemoryService(scene.environment)
    written = service.write_record("handbook/next.md", None, record("next").encode())
    require(written["ok"], f"the next write failed: {written}")
    read = service.context("text")
    require(read["ok"] and read["value"]["usageRecorded"] is True, f"the next recorded read failed: {read}")
    _check_health_of_the_living(service)
    assert_sound(scene.memory)
    _check_verified(scene.environment)
    if operation.erases:
        _check_erased(scene)


def _check_health_of_the_living(service: MemoryService) -> None:
    envelope = service.health()
    require(envelope["ok"], f"health failed afterwards: {envelope}")
    if envelope["ok"]:
        health = envelope["value"]
        calm = (health["operationLock"], health["activeRun"], health["interruptedRun"]) == (None, None, None)
        require(calm and health["journalReadable"], f"health is not calm afterwards: {health}")


def _check_verified(environment: Environment) -> None:
    faults = [fault for fault in verify(environment, utc_now).faults if fault.kind != "mode-too-open"]
    require(not faults, f"verify finds: {[fault.to_json() for fault in faults]}")


def _let_time_pass(scene: Scene) -> None:
    # Two locks of other programs' making name no holder: the host's for half a minute, the usage counter's
    # for five seconds, until its owner is written into it.
    usage_lock = scene.memory.root / ".sync" / "usage.lock"
    owner = usage_lock / "owner.json"
    if usage_lock.exists() and not (owner.exists() and owner.stat().st_size):
        _age(usage_lock)
    settings_lock = scene.dsh_home / "settings.yaml.lock"
    if settings_lock.exists():
        _age(settings_lock)


def _age(path: Path) -> None:
    past = time.time() - 60
    os.utime(path, (past, past))


def _check_import(facts: Learned, scene: Scene) -> None:
    target = restored(scene)
    if not target.exists():
        again = scene.run(facts.operation.command(scene))
        require(again.acknowledged, f"the retry failed: {again.output} {again.errors[-800:]}")
    copy = MemoryRepository(target, scene.dsh_home)
    require(copy.live_payload() == facts.old_bytes, "the restored memory is not the exported one")
    _check_verified(copy.environment)
    shutil.rmtree(target)
    again = scene.run(facts.operation.command(scene))
    require(again.acknowledged, f"the next import failed: {again.output} {again.errors[-800:]}")
    left = sorted(path.name for path in scene.folder.glob(".dsh-memory-backup-*"))
    require(not left, f"left in the way: {left}")
