"""Git trees read and changed: what a commit of a few files needs of them, remembered between commits."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from dsh_memory.repository.git import GitFailed, SealedGit
from dsh_memory.repository.loose_objects import LooseObjects
from dsh_memory.repository.objects import Entry

_TREE_MODE: Final = b"40000"
_MOST_ENTRIES: Final = 200_000
_MOST_ROOTS: Final = 8


class TreeEntry(NamedTuple):
    """One name in a tree: mode as Git writes it there, id in hex."""

    mode: bytes
    identity: str


Tree = Mapping[bytes, TreeEntry]


class TreeMemo:
    """Trees by their ids, and the root trees of commits: both never change, so that no one has to look again."""

    def __init__(self) -> None:
        self._trees: OrderedDict[str, Tree] = OrderedDict()
        self._roots: OrderedDict[str, str] = OrderedDict()
        self._entries = 0

    def keep(self, identity: str, tree: Tree) -> None:
        """Remember a tree; the longest unused ones go."""
        if identity in self._trees:
            return
        self._trees[identity] = tree
        self._entries += len(tree)
        while self._entries > _MOST_ENTRIES and len(self._trees) > 1:
            self._entries -= len(self._trees.popitem(last=False)[1])

    def keep_root(self, commit: str, identity: str) -> None:
        """Remember which tree a commit has."""
        self._roots[commit] = identity
        while len(self._roots) > _MOST_ROOTS:
            self._roots.popitem(last=False)

    def folders(self, git: SealedGit, commit: str, paths: Iterable[str]) -> dict[str, Tree]:
        """The root (the empty path) and the folders on the way to `paths` that the commit has.

        No git process where they are remembered, else one; raises GitFailed.
        """
        wanted = sorted(
            {parent for path in paths for parent in _parents(path)}, key=lambda path: (path.count("/"), path)
        )
        known = self._remembered(commit, wanted)
        return self._read(git, commit, wanted) if known is None else known

    def _remembered(self, commit: str, wanted: list[str]) -> dict[str, Tree] | None:
        found: dict[str, Tree] = {}
        for path in wanted:
            if not path:
                identity = self._roots.get(commit)
            else:
                above, _, name = path.rpartition("/")
                entry = found[above].get(os.fsencode(name)) if above in found else None
                if entry is None or entry.mode != _TREE_MODE:
                    continue
                identity = entry.identity
            if identity is None or identity not in self._trees:
                return None
            self._trees.move_to_end(identity)
            found[path] = self._trees[identity]
        return found

    def _read(self, git: SealedGit, commit: str, wanted: list[str]) -> dict[str, Tree]:
        asked = [os.fsencode(f"{commit}:{path}" if path else f"{commit}^{{tree}}") for path in wanted]
        answer = git.run("cat-file", "--batch", "-z", stdin=b"".join(each + b"\0" for each in asked))
        found: dict[str, Tree] = {}
        position = 0
        for path, question in zip(wanted, asked, strict=True):
            missing = question + b" missing\n"
            if answer.startswith(missing, position):
                position += len(missing)
                continue
            end = answer.index(b"\n", position)
            identity, kind, size = answer[position:end].decode("ascii").split(" ")
            data = answer[end + 1 : end + 1 + int(size)]
            position = end + 2 + int(size)
            if kind == "tree":
                found[path] = parse_tree(data, len(identity) // 2)
                self.keep(identity, found[path])
                if not path:
                    self.keep_root(commit, identity)
        if "" not in found:
            raise GitFailed(("cat-file",), 0, b"the commit's tree is missing")
        return found


class TreeEdit:
    """The folders of a commit that changes touch, and the objects that the changes make."""

    def __init__(self, folders: Mapping[str, Tree], memo: TreeMemo, objects: LooseObjects) -> None:
        self._folders = dict(folders)
        self._memo = memo
        self._objects = objects
        self._root = ""

    def entry(self, path: str) -> Entry | None:
        """The file at a path, as it is by now."""
        above, _, name = path.rpartition("/")
        found = self._folders.get(above, {}).get(os.fsencode(name))
        if found is None or found.mode == _TREE_MODE:
            return None
        return Entry(found.mode.decode("ascii"), found.identity)

    def apply(self, changes: Mapping[str, Entry | None]) -> str:
        """The id of the root tree after these changes; a folder that becomes empty goes."""
        new: dict[str, dict[bytes, TreeEntry]] = {}
        self._opened("", new)
        # Deletes first: a file may become a folder, or the other way round.
        for path, entry in sorted(changes.items(), key=lambda change: change[1] is not None):
            above, _, name = path.rpartition("/")
            folder = self._opened(above, new)
            key = os.fsencode(name)
            if entry is not None:
                self._forget_below(path, new)
                folder[key] = TreeEntry(entry.mode.encode("ascii"), entry.blob)
            elif key in folder and folder[key].mode != _TREE_MODE:
                del folder[key]
        for path in sorted(new, key=lambda path: -path.count("/") if path else 1):
            self._close(path, new[path], new)
        return self._root

    def _opened(self, path: str, new: dict[str, dict[bytes, TreeEntry]]) -> dict[bytes, TreeEntry]:
        for each in _parents(f"{path}/." if path else "."):
            if each not in new:
                new[each] = dict(self._folders.get(each, {}))
        return new[path]

    def _forget_below(self, path: str, new: dict[str, dict[bytes, TreeEntry]]) -> None:
        for each in [each for each in {*self._folders, *new} if each == path or each.startswith(f"{path}/")]:
            self._folders.pop(each, None)
            new.pop(each, None)

    def _close(self, path: str, tree: dict[bytes, TreeEntry], new: dict[str, dict[bytes, TreeEntry]]) -> None:
        above, _, name = path.rpartition("/")
        if path and not tree:
            self._folders.pop(path, None)
            entry = new[above].get(os.fsencode(name))
            if entry is not None and entry.mode == _TREE_MODE:
                del new[above][os.fsencode(name)]
            return
        identity = self._objects.add("tree", tree_bytes(tree))
        self._memo.keep(identity, tree)
        self._folders[path] = tree
        if path:
            new[above][os.fsencode(name)] = TreeEntry(_TREE_MODE, identity)
        else:
            self._root = identity


def parse_tree(data: bytes, id_length: int) -> dict[bytes, TreeEntry]:
    """The names in a tree; raises ValueError for bytes that are none."""
    tree: dict[bytes, TreeEntry] = {}
    position = 0
    while position < len(data):
        space = data.index(b" ", position)
        end = data.index(b"\0", space)
        tree[data[space + 1 : end]] = TreeEntry(
            data[position:space], data[end + 1 : end + 1 + id_length].hex()
        )
        position = end + 1 + id_length
    return tree


def tree_bytes(tree: Tree) -> bytes:
    """A tree as Git keeps it, folders sorted as if their names ended in a slash."""
    ordered = sorted(tree.items(), key=lambda item: item[0] + b"/" if item[1].mode == _TREE_MODE else item[0])
    return b"".join(
        b"%b %b\0%b" % (entry.mode, name, bytes.fromhex(entry.identity)) for name, entry in ordered
    )


def _parents(path: str) -> list[str]:
    """The folders above a path, the root first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts) + 1)]
