"""Previews as they are listed and found: one expiry rule, and changed paths that come from the staging."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.errors import PreviewFailure, RepoUnavailable, UnsafeLayout
from dsh_memory.repository import previews as previews_room
from dsh_memory.repository.layout import Root
from dsh_memory.repository.previews import (
    PreviewList,
    PreviewMemo,
    Staging,
    exists,
    find,
    list_previews,
    validate_preview_id,
)
from tests.support.privileges import as_nobody, give_to_nobody
from tests.support.repositories import NOON, MemoryRepository, record

PREVIEW = "20260820T120000Z-a1b2c3d4"
NAMES = ["記憶.md", "a -> b.md", "tab\t.md", "line\nbreak.md", '"q", and more.md', os.fsdecode(b"\xe9.md")]


@pytest.fixture
def memory(memory: MemoryRepository) -> MemoryRepository:
    memory.write_all({f"handbook/{name}.md": record(name) for name in "abc"})
    memory.commit()
    return memory


@pytest.fixture
def root(memory: MemoryRepository) -> Root:
    return Root(str(memory.root))


def listed(root: Root) -> PreviewList:
    return list_previews(root, NOON)


def rewrite(memory: MemoryRepository, name: str, **changes: Any) -> None:
    path = memory.path(f".sync/previews/{PREVIEW}/{name}")
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))


def failure(root: Root, preview_id: object = PREVIEW, **options: Any) -> PreviewFailure:
    with pytest.raises(PreviewFailure) as caught:
        find(root, preview_id, options.get("now", NOON))
    return caught.value


def test_no_previews(root: Root, memory: MemoryRepository) -> None:
    assert listed(root) == PreviewList((), {}, ())
    assert failure(root).code == "preview-not-found"
    memory.path(".sync/previews").mkdir()
    assert listed(root) == PreviewList((), {}, ())


def test_the_six_keys(memory: MemoryRepository, root: Root) -> None:
    memory.write_preview(PREVIEW, {"handbook/a.md": "new"}, candidate_sessions=3, extra="x", status="applied")
    expected = {
        "preview_id": PREVIEW,
        "created_at": "2026-08-20T12:00:00Z",
        "expires_at": "2026-08-27T12:00:00Z",
        "candidate_sessions": 3,
        "changed_paths": ["handbook/a.md"],
        "status": "pending",
    }
    assert list(listed(root).pending[0].to_json().items()) == list(expected.items())
    assert find(root, PREVIEW, NOON).to_json() == expected


def test_changed_paths_come_from_the_staging(memory: MemoryRepository, root: Root) -> None:
    memory.write_preview(
        PREVIEW,
        {"handbook/a.md": "edited", "handbook/b.md": None, "archive/new.md": "new"},
        changed_paths=["lie.md"],
    )
    assert listed(root).pending[0].changed_paths == ("archive/new.md", "handbook/a.md", "handbook/b.md")
    # An equal size hides nothing, nor does the executable bit.
    memory.write(f".sync/previews/{PREVIEW}/staging/handbook/c.md", record("z"))
    memory.path(f".sync/previews/{PREVIEW}/staging/summary.md").chmod(0o700)
    assert listed(root).pending[0].changed_paths[3:] == ("handbook/c.md", "summary.md")


@pytest.mark.parametrize("name", NAMES)
def test_any_name(memory: MemoryRepository, root: Root, name: str) -> None:
    memory.write(f"handbook/{name}", "old")
    memory.write_preview(PREVIEW, {f"handbook/{name}": "new", f"rollouts/{name}": "new"})
    assert listed(root).pending[0].changed_paths == (f"handbook/{name}", f"rollouts/{name}")
    with Staging(root, PREVIEW) as staging:
        assert staging.read(f"rollouts/{name}", 100) == b"new"


def test_newest_first(memory: MemoryRepository, root: Root) -> None:
    for number, hours in enumerate((2, 5, 1)):
        memory.write_preview(
            f"20260820T12000{number}Z-0000000a", {}, created_at=NOON + timedelta(hours=hours - 24)
        )
    assert [preview.preview_id[14] for preview in listed(root).pending] == ["1", "0", "2"]


@pytest.mark.parametrize(
    "expires_at", ["2026-08-20T12:00:00Z", "2026-08-20T12:00:00.000Z", "2026-08-20T14:00:00+02:00"]
)
def test_one_expiry_rule_however_the_instant_is_written(
    memory: MemoryRepository, root: Root, expires_at: str
) -> None:
    memory.write_preview(PREVIEW, {"handbook/a.md": "new"}, expires_at=expires_at)
    just_before = NOON - timedelta(milliseconds=1)
    assert list_previews(root, just_before).pending[0].expires_at == expires_at
    assert find(root, PREVIEW, just_before).expires == NOON
    assert listed(root) == PreviewList((), {PREVIEW: NOON}, ())
    assert failure(root).code == "preview-expired"
    assert exists(root, PREVIEW)


def test_reading_deletes_nothing(memory: MemoryRepository, root: Root) -> None:
    memory.write_preview(PREVIEW, {}, created_at=NOON - timedelta(days=400))
    listed(root)
    failure(root)
    assert memory.path(f".sync/previews/{PREVIEW}/staging/summary.md").exists()


@pytest.mark.parametrize("sessions", [None, True, "3", 1.5])
def test_sessions_are_a_number_or_null(memory: MemoryRepository, root: Root, sessions: Any) -> None:
    memory.write_preview(PREVIEW, {}, candidate_sessions=sessions)
    assert listed(root).pending[0].candidate_sessions is None


@pytest.mark.parametrize(
    "preview_id",
    [
        "../../etc",
        "20260820T120000Z-rollback",
        "20260820T120000Z-A1B2C3D4",
        PREVIEW + "\n",
        PREVIEW + "/staging",
        "",
        None,
        5,
        "20260820T120000Z-00000000",
    ],
)
def test_other_ids_are_not_found(memory: MemoryRepository, root: Root, preview_id: object) -> None:
    memory.write_preview(PREVIEW, {})
    assert failure(root, preview_id).code == "preview-not-found"
    assert not exists(root, preview_id)


def test_folders_of_other_names_are_no_previews(memory: MemoryRepository, root: Root) -> None:
    memory.write(".sync/previews/notes/preview.json", "{}")
    assert listed(root) == PreviewList((), {}, ())
    assert not validate_preview_id("notes")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("preview.json", {"created_at": 5}),
        ("preview.json", {"expires_at": ...}),
        ("preview.json", {"expires_at": "2026-08-27"}),
        ("preview.json", {"expires_at": "tomorrow"}),
        ("manifest.json", {"schema_version": 2}),
        ("manifest.json", {"schema_version": True}),
        ("manifest.json", {"entries": {}}),
        ("manifest.json", {"entries": [5]}),
        ("manifest.json", {"entries": [{"path": "summary.md", "size": "0", "sha256": "0" * 64}]}),
        ("manifest.json", {"entries": [{"path": "summary.md", "size": 0, "sha256": "0"}]}),
        ("manifest.json", {"entries": [{"path": "../x.md", "size": 0, "sha256": "0" * 64}]}),
        ("manifest.json", {"entries": [{"path": "handbook/../x.md", "size": 0, "sha256": "0" * 64}]}),
        ("manifest.json", {"entries": [{"path": ".git/config", "size": 0, "sha256": "0" * 64}]}),
        ("manifest.json", {"entries": [{"path": "summary.md", "size": 0, "sha256": "0" * 64}] * 2}),
    ],
)
def test_a_broken_preview_is_counted_and_not_listed(
    memory: MemoryRepository, root: Root, name: str, changes: dict[str, Any]
) -> None:
    memory.write_preview(PREVIEW, {"handbook/a.md": "new"})
    rewrite(memory, name, **changes)
    assert listed(root) == PreviewList((), {}, (PREVIEW,))
    refused = failure(root)
    assert (refused.code, refused.detail) == ("preview-apply-failed", "preview-broken")
    assert exists(root, PREVIEW)


@pytest.mark.parametrize("name", ["preview.json", "manifest.json"])
@pytest.mark.parametrize("content", [None, "", "5", "{", b"\xff"])
def test_a_preview_without_its_files_is_broken(
    memory: MemoryRepository, root: Root, name: str, content: str | bytes | None
) -> None:
    memory.write_preview(PREVIEW, {})
    memory.remove(f".sync/previews/{PREVIEW}/{name}")
    if content is not None:
        memory.write(f".sync/previews/{PREVIEW}/{name}", content)
    assert listed(root).broken == (PREVIEW,)


def test_a_preview_without_a_staging_is_broken(memory: MemoryRepository, root: Root) -> None:
    memory.write_preview(PREVIEW, {})
    memory.path(f".sync/previews/{PREVIEW}/staging").rename(memory.path(f".sync/previews/{PREVIEW}/other"))
    assert listed(root).broken == (PREVIEW,)


@pytest.mark.parametrize("mode", ["100644", "0600", "0o600", 0o100644, 0o600, None, "rw-", 0.5])
def test_modes_of_other_hands(memory: MemoryRepository, root: Root, mode: Any) -> None:
    memory.write_preview(PREVIEW, {"handbook/a.md": "new"})
    manifest = json.loads(memory.path(f".sync/previews/{PREVIEW}/manifest.json").read_text())
    rewrite(memory, "manifest.json", entries=[{**entry, "mode": mode} for entry in manifest["entries"]])
    assert listed(root).pending[0].changed_paths == ("handbook/a.md",)


def test_the_readme_stands_apart(memory: MemoryRepository, root: Root) -> None:
    memory.write_preview(PREVIEW, {"handbook/a.md": "new"})
    manifest = json.loads(memory.path(f".sync/previews/{PREVIEW}/manifest.json").read_text())
    entries = [*manifest["entries"], {"path": "README.md", "size": 10, "sha256": "1" * 64, "mode": "100644"}]
    rewrite(memory, "manifest.json", entries=entries)
    found = find(root, PREVIEW, NOON)
    assert found.changed_paths == ("handbook/a.md",)
    assert found.manifest.readme is not None
    assert found.manifest.readme.sha256 == "1" * 64
    assert found.manifest.head == memory.head


def staged_link(staging: Path) -> None:
    (staging / "handbook/link.md").symlink_to("/etc/passwd")


def staged_folder_link(staging: Path) -> None:
    (staging / "archive").rmdir()
    (staging / "archive").symlink_to("/etc")


def staging_link(staging: Path) -> None:
    staging.rename(staging.with_name("real"))
    staging.symlink_to("real")


def staged_repository(staging: Path) -> None:
    (staging / "handbook/.git").mkdir()


def staged_pipe(staging: Path) -> None:
    os.mkfifo(staging / "handbook/pipe.md")


@pytest.mark.parametrize(
    "make", [staged_link, staged_folder_link, staging_link, staged_repository, staged_pipe]
)
def test_an_unsafe_staging_costs_only_its_preview(
    memory: MemoryRepository, root: Root, make: Callable[[Path], None]
) -> None:
    memory.write_preview(PREVIEW, {"handbook/a.md": "new"})
    memory.write_preview("20260820T120001Z-0000000b", {"handbook/a.md": "new"})
    make(memory.path(f".sync/previews/{PREVIEW}/staging"))
    found = listed(root)
    assert [preview.preview_id for preview in found.pending] == ["20260820T120001Z-0000000b"]
    assert found.broken == (PREVIEW,)
    refused = failure(root)
    assert (refused.code, refused.detail) == ("preview-apply-failed", "unsafe-layout")
    with pytest.raises(UnsafeLayout):
        Staging(root, PREVIEW)


def test_a_preview_that_is_a_link_is_broken(memory: MemoryRepository, root: Root) -> None:
    memory.write_preview(PREVIEW, {})
    memory.path(f".sync/previews/{PREVIEW}").rename(memory.root.parent / "outside")
    memory.path(f".sync/previews/{PREVIEW}").symlink_to(memory.root.parent / "outside")
    assert listed(root).broken == (PREVIEW,)


def test_a_linked_previews_folder_is_unsafe(memory: MemoryRepository, root: Root) -> None:
    memory.path(".sync/previews").symlink_to("/tmp")
    with pytest.raises(UnsafeLayout):
        listed(root)


def test_foreign_names_in_a_staging_are_named(memory: MemoryRepository, root: Root) -> None:
    memory.write_preview(PREVIEW, {})
    memory.write(f".sync/previews/{PREVIEW}/staging/scripts/x.py", "x")
    memory.write(f".sync/previews/{PREVIEW}/staging/.env", "x")
    with Staging(root, PREVIEW) as staging:
        assert staging.foreign == (".env", "scripts")
        assert staging.files.keys() == {"summary.md", "handbook/a.md", "handbook/b.md", "handbook/c.md"}
        assert staging.read("README.md", 100) == b"reference\n"
        assert len(staging.read("handbook/a.md", 4)) == 5


def test_a_memo_compares_an_unchanged_staging_once(
    memory: MemoryRepository, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.write_preview(PREVIEW, {"handbook/a.md": "new"})
    monkeypatch.setattr(previews_room, "SETTLED_NS", -(10**18))
    compared: list[Staging] = []
    original = Staging.changed_paths

    def recording(staging: Staging, manifest: previews_room.Manifest) -> tuple[str, ...]:
        compared.append(staging)
        return original(staging, manifest)

    monkeypatch.setattr(Staging, "changed_paths", recording)
    memo = PreviewMemo()
    for _ in range(3):
        assert list_previews(root, NOON, memo).pending[0].changed_paths == ("handbook/a.md",)
    assert len(compared) == 1
    memory.write(f".sync/previews/{PREVIEW}/staging/handbook/b.md", "in place")
    assert list_previews(root, NOON, memo).pending[0].changed_paths == ("handbook/a.md", "handbook/b.md")
    rewrite(memory, "manifest.json", entries=[])
    assert len(list_previews(root, NOON, memo).pending[0].changed_paths) == 4
    memory.path(f".sync/previews/{PREVIEW}").rename(memory.root.parent / "gone")
    list_previews(root, NOON, memo)
    assert memo.seen == {}


def test_what_may_not_be_read(open_tmp: Path) -> None:
    memory = MemoryRepository.create(open_tmp / "memory", {"handbook/a.md": "old"})
    memory.write_preview(PREVIEW, {"handbook/a.md": "new"})
    give_to_nobody(open_tmp)
    memory.path(f".sync/previews/{PREVIEW}/staging/handbook/a.md").chmod(0)
    assert as_nobody(lambda: list_previews(Root(str(memory.root)), NOON).broken) == (PREVIEW,)
    memory.path(".sync/previews").chmod(0)

    def refused() -> str | None:
        with pytest.raises(RepoUnavailable) as caught:
            list_previews(Root(str(memory.root)), NOON)
        return caught.value.detail

    assert as_nobody(refused) == "previews-unreadable"
    memory.path(".sync/previews").chmod(0o700)


def test_listing_leaks_no_descriptor(memory: MemoryRepository, root: Root) -> None:
    memory.write_preview(PREVIEW, {"handbook/a.md": "new"})
    memory.write_preview("20260820T120001Z-0000000b", {})
    staged_link(memory.path(".sync/previews/20260820T120001Z-0000000b/staging"))
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        listed(root)
    assert len(os.listdir("/dev/fd")) == before
