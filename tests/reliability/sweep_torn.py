"""Every file that a memory keeps is cut to half, emptied and zeroed in turn: it is said, and mended where that is
provable.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dsh_memory.environment import utc_now
from dsh_memory.errors import MemoryFailure
from dsh_memory.service import Envelope, MemoryService
from dsh_memory.verify import Report, verify
from tests.reliability import actor
from tests.reliability.aftermath import require
from tests.reliability.figures import Figures
from tests.reliability.operations import OPERATIONS
from tests.reliability.scenes import Scene
from tests.reliability.sweeping import SCENE_NUMBERS, sample, tried
from tests.support.repositories import record

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut to half": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "zeroed": lambda data: b"\0" * len(data),
}
SHORT_STATES = 24
PREVIEW = "20260820T110000Z-a1b2c3d4"
_FILES = {
    "handbook/kept.md": record("kept", "Kept text.\n"),
    "handbook/changed.md": record("changed", "Old text.\n"),
    "rollouts/legacy.md": "old note without a header\n",
    "summary.md": "# Summary\n",
    ".last-sync": "1787000000\n",
}
#: What nobody would miss: it is made anew, or serves people who look into the repository by hand.
_UNTOUCHED = (".git/description", ".git/hooks/", ".git/COMMIT_EDITMSG", "README.md")


@dataclass(frozen=True, slots=True)
class Torn:
    """One damaged file of a scene; `file` is relative to the scene's folder."""

    template: Scene
    file: str
    damage: str

    def __str__(self) -> str:
        return f"{self.template.folder.name}: {self.file} {self.damage}"


def quiet_scene(folder: Path) -> Scene:
    """A memory with runs, a preview, counts of uses, settings and the state of the memory API."""
    scene = Scene.create(folder, _FILES)
    service = MemoryService(scene.environment)
    for envelope in (
        service.write_record("handbook/written.md", None, record("written").encode()),
        service.context("text"),
    ):
        require(envelope["ok"], f"the scene cannot be made: {envelope}")
    for name in ("write", "settings"):
        OPERATIONS[name].prepare(scene)
    scene.memory.write_preview(PREVIEW, {"handbook/kept.md": None}, created_at=utc_now())
    return scene


def dead_scene(folder: Path) -> Scene:
    """A memory whose last change died just after its branch moved."""
    scene = Scene.create(folder, _FILES)
    status, _ = actor.run(scene.memory.root, "clear", die_at=["moved", 1])
    require(status < 0, "the change did not die")
    return scene


def states(template: Scene) -> list[Torn]:
    """Every file of a scene with every damage."""
    files = sorted(
        os.path.relpath(os.path.join(where, name), template.folder)
        for where, _, names in os.walk(template.folder)
        for name in names
    )
    root = os.path.relpath(template.memory.root, template.folder)
    return [
        Torn(template, file, damage)
        for damage in DAMAGES
        for file in files
        if not any(f"{root}/{name}" in file for name in _UNTOUCHED)
        and not file.startswith(("bin/", "tmp/"))
        and (template.folder / file).stat().st_size > 1
    ]


def attempt(torn: Torn) -> None:
    """Damages the file and asks everything; raises AssertionError where something is hidden or goes wrong."""
    scene = torn.template.copied_to(torn.template.folder.parent / f"torn-{next(SCENE_NUMBERS)}")
    path = scene.folder / torn.file
    whole = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(DAMAGES[torn.damage](whole))
    service = MemoryService(scene.environment)
    refused = [envelope for envelope in _asked(service) if not envelope["ok"]]
    found = _verified(scene)
    mended = scene.call("verify", "--repair", "--json")
    _require_no_traceback(mended.errors + mended.output)
    recovered = scene.call("recover", "--yes", "--json")
    _require_no_traceback(recovered.errors + recovered.output)
    written = service.write_record("handbook/next.md", None, record("next").encode())
    _require_stable(written)
    left = _verified(scene)
    # What still stands in the way of a read or a change, or is still broken, has to be said.
    if refused or not written["ok"] or _is_damaged(scene, path, whole):
        require(bool(found or left), f"nothing says so: {refused} {written}")
    if not written["ok"]:
        require(bool(left), f"a change is refused and verify has no word about it: {written}")
    scene.remove()


def _asked(service: MemoryService) -> Iterator[Envelope]:
    for envelope in (
        service.status(),
        service.health(),
        service.runs(),
        service.previews(),
        service.search("text", scope="all"),
        service.legacy_records(),
        service.get_settings(),
        service.context("text"),
    ):
        _require_stable(envelope)
        yield envelope


def _require_stable(envelope: Envelope) -> None:
    if not envelope["ok"]:
        error = envelope["error"]
        require(error.get("detail") != "unexpected", f"no stable code: {error}")


def _require_no_traceback(text: str) -> None:
    require("Traceback" not in text and '"unexpected"' not in text, f"a traceback: {text[-600:]}")


def _verified(scene: Scene) -> list[str]:
    """What verify says is wrong, be it that nothing can be opened."""
    try:
        report: Report = verify(scene.environment, utc_now)
    except MemoryFailure as failure:
        return [failure.code]
    return [f"{fault.kind} {fault.subject}" for fault in report.faults if fault.kind != "mode-too-open"]


def _is_damaged(scene: Scene, path: Path, whole: bytes) -> bool:
    """Whether an object or a run of the journal, which nothing changes once they are written, is still broken."""
    kept = "/.git/objects/" in str(path) or "/.sync/runs/" in str(path)
    return kept and path.exists() and path.read_bytes() != whole


@contextmanager
def templates() -> Iterator[list[Scene]]:
    """The scenes whose files are damaged."""
    with tempfile.TemporaryDirectory(prefix="dsh-memory-torn-") as folder:
        yield [quiet_scene(Path(folder, "quiet")), dead_scene(Path(folder, "dead"))]


def figures(long: bool) -> Figures:
    """Torn files."""
    with templates() as scenes:
        cases: Sequence[Torn] = [torn for scene in scenes for torn in states(scene)]
        return tried(cases if long else sample(cases, SHORT_STATES), attempt)
