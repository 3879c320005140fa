"""The payload as a commit holds it, and the records in it: where the worktree cannot be read as one moment."""

from __future__ import annotations

from collections.abc import Iterable

from dsh_memory.errors import RepoUnavailable, UnsafeLayout
from dsh_memory.records.metadata import MAX_RECORD_BYTES, Malformed, Record, oversized, read_record
from dsh_memory.repository.content import RecordCache, is_record_below
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.objects import FILE_MODES, Entry, payload_of, read_blobs
from dsh_memory.repository.opening import Repository


def committed_payload(repo: Repository, commit: str | None, cache: RecordCache) -> dict[str, Entry]:
    """Every payload file of a commit, nothing before the first one; raises RepoUnavailable."""
    if commit is None:
        return {}
    payload = cache.committed(commit)
    if payload is None:
        try:
            payload = payload_of(repo.git, commit)
        except GitFailed as failure:
            raise RepoUnavailable("The commit at HEAD cannot be read.", detail="head-unreadable") from failure
        cache.remember_committed(commit, payload)
    return payload


def parse_committed(
    repo: Repository, committed: dict[str, Entry], folders: tuple[str, ...], cache: RecordCache
) -> list[Record | Malformed]:
    """The record files of a commit's payload below `folders`, by path.

    Blobs that the cache has parsed are not fetched. Raises UnsafeLayout for links and the like, RepoUnavailable
    for what Git has lost.
    """
    parsed: dict[str, Record | Malformed] = {}
    wanted: dict[str, str] = {}
    for path, entry in committed.items():
        if entry.mode not in FILE_MODES:
            raise UnsafeLayout(
                "HEAD's payload holds something that is no plain file.", detail=f"no-file: {path}"
            )
        if not is_record_below(path, folders):
            continue
        known = cache.get(path)
        if known is not None and known.blob == entry.blob and known.parsed is not None:
            parsed[path] = known.parsed
        else:
            wanted[path] = entry.blob
    try:
        sizes = _blob_sizes(repo, wanted.values())
        small = {path: blob for path, blob in wanted.items() if sizes[blob] <= MAX_RECORD_BYTES}
        data = read_blobs(repo.git, small.values())
    except GitFailed as failure:
        raise RepoUnavailable("The records at HEAD cannot be read.", detail="head-unreadable") from failure
    for path, blob in wanted.items():
        parsed[path] = read_record(path, data[blob]) if path in small else oversized(path, sizes[blob])
    return [parsed[path] for path in sorted(parsed)]


def _blob_sizes(repo: Repository, blobs: Iterable[str]) -> dict[str, int]:
    wanted = sorted(set(blobs))
    if not wanted:
        return {}
    request = "".join(f"{blob}\n" for blob in wanted).encode()
    answer = repo.git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=request)
    sizes: dict[str, int] = {}
    for line in answer.decode("ascii").splitlines():
        blob, size = line.split(" ")
        if not size.isdigit():
            raise RepoUnavailable("A record at HEAD is missing from Git.", detail="head-unreadable")
        sizes[blob] = int(size)
    return sizes
