"""The host plugin as files: packed, put into a DSH home, and taken out again without a trace."""

from __future__ import annotations

import json
import os
import sys
import tarfile
from pathlib import Path

import pytest

import dsh_memory
from dsh_memory.hosts.plugin import PluginFailure, install, pack, plugin_folder, remove
from dsh_memory.hosts.plugin_row import UneditablePatch, row, with_row, without_row

OURS = row(["/opt/python", "-P", "-m", "dsh_memory"])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "dsh home"
    folder.mkdir()
    return folder


def tree(folder: Path) -> dict[str, bytes | str]:
    """Every file and link below a folder with what it holds."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


LAYERS = [
    "",
    "# Your patch layer\n[]\n",
    "# Your patch layer\n[]",
    "- id: hmr\n  disabled: true\n",
    "# a\r\n- id: hmr\r\n  disabled: !!js process.env.X\r\n",
    "- insert:\n    - id: other\n      name: x\n# a last word\n",
    "---\n- id: memory-like\n",
]


@pytest.mark.parametrize("text", LAYERS)
def test_a_row_goes_in_once_and_out_again(text: str) -> None:
    changed = with_row(text, OURS)
    assert OURS in changed
    assert with_row(changed, OURS) == changed
    assert without_row(changed).rstrip("\n") == text.rstrip("\n")
    assert without_row(text) == text


def test_an_empty_list_alone_becomes_nothing() -> None:
    assert without_row(with_row("[]\n", OURS)) == ""


def test_a_changed_row_replaces_the_old_one() -> None:
    other = row(["/usr/bin/python3"])
    assert with_row(with_row("- id: a\n", OURS), other) == with_row("- id: a\n", other)


def test_rows_that_others_add_after_ours_stay() -> None:
    changed = with_row("- id: a\n", OURS) + "- id: b\n"
    assert without_row(changed) == "- id: a\n- id: b\n"


@pytest.mark.parametrize(
    "text",
    [
        "- insert:\n    - id: memory\n      name: another-memory\n",
        "- insert: [{id: memory, name: x}]\n",
        "[{id: a}]\n",
        "[] # none yet\n",
        "  - id: a\n",
        "key: value\n",
        "null\n",
        "text\n",
        "- a\n...\n",
        "- a\n---\n- b\n",
        "- 'open\n",
    ],
)
def test_a_layer_that_cannot_take_the_row_is_refused(text: str) -> None:
    with pytest.raises(UneditablePatch):
        with_row(text, OURS)


def test_half_a_block_is_left_for_a_person() -> None:
    with pytest.raises(UneditablePatch, match="by hand"):
        without_row(with_row("", OURS).replace("# <<< dsh-memory\n", ""))


@pytest.mark.parametrize("command", [["/a b/python", "-P"], ['/"q"/{{x}}$&', "é", "#", "a: b", "!!js x"]])
def test_a_row_says_what_was_meant(command: list[str]) -> None:
    from ruamel.yaml import YAML

    (patch,) = YAML(typ="safe", pure=True).load(row(command))
    assert patch == {
        "insert": [{"id": "memory", "name": "dsh-memory-plugin", "config": {"command": command}}]
    }


def test_install_is_idempotent_and_remove_leaves_the_home_as_it_was(home: Path) -> None:
    (home / "settings.yaml").write_text("memory:\n  enabled: false\n")
    (home / "cordis.patch.yml").write_text("# mine\n- id: hmr\n  disabled: true\n")
    (home / "cordis.patch.yml").chmod(0o640)
    before = tree(home)

    first = install(str(home))
    after = tree(home)
    link = home / "profiles" / "node_modules" / "dsh-memory-plugin"
    assert first == (str(link), str(home / "cordis.patch.yml"))
    assert json.loads((link / "package.json").read_text())["version"] == dsh_memory.__version__
    assert (link / "skills" / "memory" / "SKILL.md").is_file()
    assert json.dumps([sys.executable, "-P", "-m", "dsh_memory"]) in (home / "cordis.patch.yml").read_text()
    assert (home / "cordis.patch.yml").stat().st_mode & 0o777 == 0o640

    assert install(str(home)) == ()
    assert tree(home) == after

    assert remove(str(home)) == (str(home / "cordis.patch.yml"), str(link))
    assert tree(home) == before
    assert remove(str(home)) == ()


def test_a_patch_layer_of_ours_alone_is_private_and_goes(home: Path) -> None:
    install(str(home))
    assert (home / "cordis.patch.yml").stat().st_mode & 0o777 == 0o600
    remove(str(home))
    assert tree(home) == {}


def test_an_update_swings_to_the_new_files_and_sweeps_the_old(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(str(home))
    monkeypatch.setattr(dsh_memory, "__version__", "9.9.9")
    install(str(home))
    modules = home / "profiles" / "node_modules"
    assert json.loads((modules / "dsh-memory-plugin" / "package.json").read_text())["version"] == "9.9.9"
    assert len(list(modules.iterdir())) == 2


def test_nothing_is_written_where_the_row_cannot_go(home: Path) -> None:
    (home / "cordis.patch.yml").write_text("- insert:\n    - id: memory\n      name: another\n")
    before = tree(home)
    with pytest.raises(PluginFailure, match="another row has the id 'memory'"):
        install(str(home))
    assert tree(home) == before


def test_links_and_folders_of_others_are_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yml").write_text("[]\n")
    (home / "cordis.patch.yml").symlink_to(tmp_path / "elsewhere.yml")
    with pytest.raises(PluginFailure, match="is a link"):
        install(str(home))
    assert (tmp_path / "elsewhere.yml").read_text() == "[]\n"
    (home / "cordis.patch.yml").unlink()
    (home / "profiles" / "node_modules" / "dsh-memory-plugin").mkdir(parents=True)
    for act in (install, remove):
        with pytest.raises(PluginFailure, match="by other hands"):
            act(str(home))


def test_a_pack_is_the_folder_with_version_and_python(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    path = Path(pack(str(tmp_path / "one")))
    assert path.name == f"dsh-memory-plugin-{dsh_memory.__version__}.tgz"
    assert Path(pack(str(tmp_path / "two"))).read_bytes() == path.read_bytes()
    with tarfile.open(path) as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert all(member.isfile() and member.mode == 0o644 for member in members.values())
        assert {name.removeprefix("package/") for name in members} == set(tree(Path(plugin_folder())))
        patch = archive.extractfile("package/cordis.patch.yml")
        assert patch is not None and patch.read().decode() == row([sys.executable, "-P", "-m", "dsh_memory"])
