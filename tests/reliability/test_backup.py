"""Backups: what comes back is the whole memory, and a bundle that is not whole never becomes one."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from dsh_memory.backup import export_backup, import_backup
from dsh_memory.environment import Environment
from dsh_memory.errors import BackupFailure
from dsh_memory.repository.creation import init
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.view import payload_view
from dsh_memory.verify import verify
from tests.support.clocks import FrozenClock
from tests.support.repositories import NOON, MemoryRepository, record


@pytest.fixture
def full(memory: MemoryRepository) -> MemoryRepository:
    """A memory with records, a run, usage counts, a tag and a second branch."""
    memory.write_all(
        {
            "handbook/a.md": record("a", "One.\n"),
            "handbook/crlf.md": b"a\r\nb\r\n",
            "rollouts/ü b.md": record("b", "Two.\n"),
            ".last-sync": "1787000000\n",
        }
    )
    memory.write("handbook/tool.sh", "#!/bin/sh\n", executable=True)
    memory.write_run("20260820T120000Z-a1b2c3d4", status="no_change")
    memory.commit()
    memory.git("tag", "kept")
    memory.git("branch", "side")
    usage = {"schema_version": 1, "records": {"handbook/a.md": {"usage_count": 3, "last_usage": None}}}
    memory.write(".sync/usage.json", json.dumps(usage))
    return memory


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    folder = tmp_path / "my backups ü"
    folder.mkdir()
    return str(folder / "memory.bundle")


def environment_of(root: Path) -> Environment:
    return Environment(dsh_home=str(root.parent), memory_root=str(root))


def refused(bundle: str, target: Path) -> BackupFailure:
    before = sorted(target.parent.iterdir())
    with pytest.raises(BackupFailure) as failure:
        import_backup(bundle, str(target))
    assert sorted(target.parent.iterdir()) == before
    return failure.value


def test_what_was_exported_comes_back_whole(full: MemoryRepository, bundle: str, tmp_path: Path) -> None:
    exported = export_backup(full.environment, bundle, NOON)
    assert exported.manifest.payload_files == (
        "handbook/a.md", "handbook/crlf.md", "handbook/tool.sh", "rollouts/ü b.md", "summary.md",
    )  # fmt: skip
    assert exported.manifest.payload_size_bytes == sum(map(len, full.live_payload().values()))
    assert exported.manifest.commit_count == int(full.git("rev-list", "--count", "HEAD"))
    assert [os.stat(path).st_mode & 0o777 for path in (bundle, bundle + ".json")] == [0o600, 0o600]

    target = tmp_path / "restored"
    assert import_backup(bundle, str(target)).described
    restored = MemoryRepository(target, tmp_path)
    assert restored.live_payload() == full.live_payload()
    assert restored.head == full.head
    assert restored.git("symbolic-ref", "HEAD") == b"refs/heads/main\n"
    assert restored.git("tag") == b"kept\n"
    assert restored.git("config", "user.email") == b"dpsk-memory@localhost\n"
    assert restored.path(".sync/usage.json").exists()
    assert os.stat(restored.path(".last-sync")).st_mtime == 1787000000
    assert restored.git("status", "--porcelain") == b""
    assert verify(environment_of(target), FrozenClock()).faults == ()
    with Repository.open(environment_of(target)) as repo:
        assert payload_view(repo).files["handbook/tool.sh"].executable


def test_a_sha256_memory_comes_back(tmp_path: Path, bundle: str) -> None:
    memory = MemoryRepository.create(tmp_path / "memory", {"handbook/a.md": "x\n"}, object_format="sha256")
    export_backup(memory.environment, bundle, NOON)
    import_backup(bundle, str(tmp_path / "restored"))
    assert MemoryRepository(tmp_path / "restored").head == memory.head


def test_a_dry_run_writes_nothing(full: MemoryRepository, bundle: str, tmp_path: Path) -> None:
    export_backup(full.environment, bundle, NOON, dry_run=True)
    assert list(Path(bundle).parent.iterdir()) == []
    export_backup(full.environment, bundle, NOON)
    before = sorted(tmp_path.iterdir())
    assert import_backup(bundle, str(tmp_path / "restored"), dry_run=True).dry_run
    assert sorted(tmp_path.iterdir()) == before


def test_edits_in_no_commit_are_said_and_not_listed(full: MemoryRepository, bundle: str) -> None:
    full.write("handbook/new.md", "new\n")
    exported = export_backup(full.environment, bundle, NOON)
    assert exported.uncommitted == ("handbook/new.md",)
    assert "handbook/new.md" not in exported.manifest.payload_files


def test_nothing_is_overwritten_and_nothing_goes_into_the_memory(full: MemoryRepository, bundle: str) -> None:
    export_backup(full.environment, bundle, NOON)
    first = Path(bundle).read_bytes()
    with pytest.raises(BackupFailure) as failure:
        export_backup(full.environment, bundle, NOON)
    assert failure.value.code == "backup-target-exists"
    assert Path(bundle).read_bytes() == first
    with pytest.raises(BackupFailure) as failure:
        export_backup(full.environment, str(full.path("handbook/x.bundle")), NOON)
    assert failure.value.detail == "inside-root"


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_an_existing_target_is_refused_and_left_alone(
    full: MemoryRepository, bundle: str, tmp_path: Path, kind: str
) -> None:
    export_backup(full.environment, bundle, NOON)
    target = tmp_path / "there"
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to(tmp_path / "nowhere")
    assert refused(bundle, target).code == "backup-target-exists"
    with pytest.raises(BackupFailure):
        import_backup(bundle, str(target), dry_run=True)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.999])
def test_a_truncated_bundle_is_refused(
    full: MemoryRepository, bundle: str, tmp_path: Path, share: float
) -> None:
    full.write("handbook/big.md", os.urandom(200_000).hex())
    full.commit()
    export_backup(full.environment, bundle, NOON)
    data = Path(bundle).read_bytes()
    Path(bundle).write_bytes(data[: int(len(data) * share)])
    assert refused(bundle, tmp_path / "restored").code == "backup-invalid"


def test_a_damaged_bundle_is_refused(full: MemoryRepository, bundle: str, tmp_path: Path) -> None:
    export_backup(full.environment, bundle, NOON)
    data = bytearray(Path(bundle).read_bytes())
    data[-60] ^= 0xFF
    Path(bundle).write_bytes(data)
    assert refused(bundle, tmp_path / "restored").code == "backup-invalid"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"schema_version": 2}, "newer-schema-version"),
        ({"schema_version": "1"}, "manifest-broken"),
        ({"head": "0" * 40}, "manifest-head"),
        ({"commit_count": 99}, "manifest-commit-count"),
        ({"payload_files": []}, "manifest-payload-files"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    full: MemoryRepository, bundle: str, tmp_path: Path, change: dict[str, object], detail: str
) -> None:
    export_backup(full.environment, bundle, NOON)
    manifest = Path(bundle + ".json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    assert refused(bundle, tmp_path / "restored").detail == detail


def test_a_bundle_without_manifest_is_checked_against_itself(
    full: MemoryRepository, bundle: str, tmp_path: Path
) -> None:
    export_backup(full.environment, bundle, NOON)
    os.unlink(bundle + ".json")
    assert not import_backup(bundle, str(tmp_path / "restored")).described


@pytest.mark.parametrize("content", [b"", b"no bundle", b"# v2 git bundle\n"])
def test_what_is_no_bundle_is_refused(tmp_path: Path, bundle: str, content: bytes) -> None:
    Path(bundle).write_bytes(content)
    assert refused(bundle, tmp_path / "restored").code == "backup-invalid"
    os.unlink(bundle)
    assert refused(bundle, tmp_path / "restored").code == "backup-invalid"


def test_a_shallow_memory_is_not_exported_and_its_bundle_not_imported(
    full: MemoryRepository, bundle: str, tmp_path: Path
) -> None:
    shallow = tmp_path / "shallow"
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", f"file://{full.root}", str(shallow)],
        check=True,
        capture_output=True,
    )
    with pytest.raises(BackupFailure) as failure:
        export_backup(environment_of(shallow), bundle, NOON)
    assert failure.value.detail == "shallow"
    MemoryRepository(shallow).git("bundle", "create", "-q", bundle, "--all")
    assert refused(bundle, tmp_path / "restored").code == "backup-invalid"


def test_an_incremental_bundle_is_refused(full: MemoryRepository, bundle: str, tmp_path: Path) -> None:
    full.git("bundle", "create", "-q", bundle, "HEAD^..HEAD")
    assert refused(bundle, tmp_path / "restored").code == "backup-invalid"


@pytest.mark.parametrize("name", ["handbook/link.md", "README.md", ".sync/runs", "scripts/sync"])
def test_a_bundle_with_links_in_the_memory_is_refused(
    full: MemoryRepository, bundle: str, tmp_path: Path, name: str
) -> None:
    place = full.path(name)
    place.parent.mkdir(exist_ok=True)
    subprocess.run(["rm", "-rf", str(place)], check=True)
    place.symlink_to("/etc/passwd")
    full.commit()
    full.git("bundle", "create", "-q", bundle, "--all")
    assert refused(bundle, tmp_path / "restored").detail == "no-plain-file"


def test_a_fresh_memory_can_be_exported_from_anywhere(
    tmp_path: Path, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = environment_of(tmp_path / "my mem" / "ü")
    init(environment)
    monkeypatch.chdir("/")
    export_backup(environment, bundle, NOON)
    import_backup(bundle, str(tmp_path / "restored"))


def test_what_dead_processes_left_beside_a_backup_goes_and_what_others_use_stays(
    full: MemoryRepository, bundle: str
) -> None:
    beside = Path(bundle).parent
    dead, used = beside / ".dsh-memory-backup-dead", beside / ".dsh-memory-backup-used"
    for folder in (dead, used):
        folder.mkdir(mode=0o700)
        (folder / "bundle").write_bytes(b"half")
    descriptor = os.open(used, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        export_backup(full.environment, bundle, NOON)
    finally:
        os.close(descriptor)
    assert (dead.exists(), used.exists()) == (False, True)
