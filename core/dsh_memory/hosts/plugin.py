"""The DSH host's plugin as files: where it lies, its .tgz, and putting it into a DSH home and out again."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import secrets
import shutil
import stat
import sys
import tarfile
from collections.abc import Mapping
from importlib import resources

import dsh_memory
from dsh_memory.hosts.plugin_row import PATCH_FILE, UneditablePatch, row, with_row, without_row

PACKAGE = "dsh-memory-plugin"

_MODULES = os.path.join("profiles", "node_modules")
#: What npm itself gives every file, so that the same files pack to the same bytes.
_PACKED_AT = 499162500


class PluginFailure(Exception):
    """The plugin was left as it was; the message says what stands in the way."""


def plugin_folder() -> str:
    """The folder of the plugin's own files, inside the installed package."""
    return str(resources.files("dsh_memory.hosts") / "dsh_plugin")


def pack(folder: str) -> str:
    """Write the .tgz that `dsh plugin add` takes into `folder`; its path. Equal files pack to equal bytes."""
    path = os.path.join(os.path.abspath(folder), f"{PACKAGE}-{dsh_memory.__version__}.tgz")
    archive = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=archive, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, content in _files().items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode, entry.mtime = len(content), 0o644, _PACKED_AT
            tar.addfile(entry, io.BytesIO(content))
    try:
        _replace_file(path, archive.getvalue(), 0o644)
    except OSError as error:
        raise PluginFailure(f"{path}: {error.strerror}") from error
    return path


def install(dsh_home: str) -> tuple[str, ...]:
    """Put the plugin into a DSH home, for every profile; the paths written, none where all was so already.

    The files go to `profiles/node_modules`, the row to the home's own patch layer, `cordis.patch.yml`. The
    server is this Python. A reader, and so a host that is running, sees the old state or the new one. Raises
    PluginFailure.
    """
    files = _files()
    link, patch = _places(dsh_home)
    try:
        before = _read_patch(patch)
        after = with_row(before, row(_command()))
        written = [*_install_files(link, files)]
        if after != before:
            _replace_file(patch, after.encode(), _mode_of(patch))
            written.append(patch)
    except UneditablePatch as error:
        raise PluginFailure(f"{patch}: {error}") from error
    except OSError as error:
        raise PluginFailure(f"{error.filename}: {error.strerror}") from error
    return tuple(written)


def remove(dsh_home: str) -> tuple[str, ...]:
    """Take out what `install` put in; the paths taken away or changed. Raises PluginFailure."""
    link, patch = _places(dsh_home)
    removed = []
    try:
        before = _read_patch(patch)
        after = without_row(before)
        if after != before:
            # The row goes first: a row whose package is gone keeps a host from booting.
            if after.strip():
                _replace_file(patch, after.encode(), _mode_of(patch))
            else:
                os.unlink(patch)
            removed.append(patch)
        if os.path.islink(link):
            os.unlink(link)
            removed.append(link)
        _sweep(link, keep=None)
    except UneditablePatch as error:
        raise PluginFailure(f"{patch}: {error}") from error
    except OSError as error:
        raise PluginFailure(f"{error.filename}: {error.strerror}") from error
    return tuple(removed)


def _places(dsh_home: str) -> tuple[str, str]:
    link = os.path.join(dsh_home, _MODULES, PACKAGE)
    if os.path.lexists(link) and not os.path.islink(link):
        raise PluginFailure(f"{link}: was put there by other hands; take it away first")
    return link, os.path.join(dsh_home, PATCH_FILE)


def _command() -> list[str]:
    # -P: the server's working folder, or a file beside it, must not shadow a module.
    return [sys.executable, "-P", "-m", "dsh_memory"]


def _files() -> dict[str, bytes]:
    """The plugin's files by their path inside it, with this version and this Python filled in."""
    folder = plugin_folder()
    files = {}
    for directory, subfolders, names in os.walk(folder):
        subfolders.sort()
        for name in sorted(names):
            path = os.path.join(directory, name)
            with open(path, "rb") as stream:
                files[os.path.relpath(path, folder)] = stream.read()
    manifest = json.loads(files["package.json"])
    manifest["version"] = dsh_memory.__version__
    files["package.json"] = (json.dumps(manifest, indent=2) + "\n").encode()
    files[PATCH_FILE] = row(_command()).encode()
    return files


def _install_files(link: str, files: Mapping[str, bytes]) -> list[str]:
    """Put the files into a folder named by their digest, and swing the link to it in one rename."""
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    target = f".{PACKAGE}-{digest}"
    if os.path.islink(link) and os.readlink(link) == target and os.path.isdir(link):
        return []
    modules = os.path.dirname(link)
    os.makedirs(modules, mode=0o700, exist_ok=True)
    folder = os.path.join(modules, target)
    fresh = f"{folder}.{secrets.token_hex(4)}.tmp"
    for name, content in files.items():
        path = os.path.join(fresh, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as stream:
            stream.write(content)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(fresh, folder)
    swing = f"{fresh}.link"
    os.symlink(target, swing)
    os.replace(swing, link)
    _sweep(link, keep=target)
    return [link]


def _sweep(link: str, keep: str | None) -> None:
    modules = os.path.dirname(link)
    if not os.path.isdir(modules):
        return
    for name in os.listdir(modules):
        if name.startswith(f".{PACKAGE}-") and name != keep:
            path = os.path.join(modules, name)
            os.unlink(path) if os.path.islink(path) else shutil.rmtree(path)


def _read_patch(path: str) -> str:
    if os.path.islink(path):
        raise UneditablePatch("is a link; put the row into the file it names")
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise UneditablePatch("is not UTF-8") from error


def _mode_of(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return 0o600


def _replace_file(path: str, content: bytes, mode: int) -> None:
    temporary = f"{path}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
