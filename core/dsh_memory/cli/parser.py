"""The grammar of the command line; each subcommand names the function that runs it as `module:function`."""

from __future__ import annotations

import argparse
from typing import NoReturn

import dsh_memory
from dsh_memory.cli.hosts import add_host_commands, add_http_options
from dsh_memory.cli.keeping import add_keeping_commands
from dsh_memory.cli.syncing import add_preview_creation, add_sync_commands
from dsh_memory.contract import METHODS
from dsh_memory.text import visible

_EPILOG = """\
Without a subcommand the terminal UI opens. Exit codes: 0 done, 1 failed, 2 wrong usage or no terminal,
3 another operation is in progress, 130 interrupted.
"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints show what was typed inert."""

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


class Commands:
    """The subcommands of one parser, all with the options that are accepted in every place."""

    def __init__(self, parser: Parser, everywhere: Parser, *, required: bool) -> None:
        self._everywhere = everywhere
        self._actions = parser.add_subparsers(
            title="commands", metavar="COMMAND", required=required, parser_class=Parser
        )

    def add(self, name: str, handler: str, summary: str, *, json: bool = True) -> Parser:
        """A subcommand that `handler` (`module:function` of this package) runs."""
        parser = self._actions.add_parser(
            name, help=summary, description=f"{summary}.", parents=[self._everywhere], allow_abbrev=False
        )
        parser.set_defaults(handler=handler)
        if json:
            parser.add_argument("--json", action="store_true", help="write the envelope as one line of JSON")
        return parser

    def group(self, name: str, summary: str) -> Commands:
        """A subcommand that has subcommands of its own."""
        parser = self._actions.add_parser(
            name, help=summary, description=f"{summary}.", parents=[self._everywhere], allow_abbrev=False
        )
        return Commands(parser, self._everywhere, required=True)


def build_parser() -> Parser:
    """The parser of the whole command line; `handler` of its result names what to run."""
    everywhere = _options_of_every_place()
    parser = Parser(
        prog="dsh-memory",
        description="See, search, review, undo and clear what coding agents remember.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[everywhere],
        allow_abbrev=False,
    )
    parser.add_argument(
        "--demo", action="store_true", help="open the terminal UI on a throw-away sample memory"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="open the terminal UI with every act switched off"
    )
    parser.set_defaults(handler="starting:open_frontend", json=False)
    commands = Commands(parser, everywhere, required=False)
    _add_reading(commands)
    _add_previews(commands)
    _add_changing(commands)
    _add_serving(commands)
    add_sync_commands(commands)
    add_keeping_commands(commands)
    add_host_commands(commands)
    return parser


def _add_reading(commands: Commands) -> None:
    commands.add("init", "starting:init", "Create the memory repository, or verify the one that is there")
    commands.add("status", "reading:status", METHODS["memory.status"].summary)
    commands.add("health", "reading:health", METHODS["memory.health"].summary)
    runs = commands.add("runs", "reading:runs", METHODS["memory.runs"].summary)
    _add_limit(runs, "runs", default=20)
    runs.add_argument("--operation", metavar="NAME", help="only runs of this operation")
    runs.add_argument("--status", metavar="NAME", help="only runs with this status")
    commands.add("previews", "reading:previews", METHODS["memory.previews"].summary)
    search = commands.add("search", "reading:search", METHODS["memory.search"].summary)
    search.add_argument("query", nargs="+", metavar="QUERY", help="words to look for")
    _add_limit(search, "results", default=20)
    _add_scope(search)
    context = commands.add("context", "reading:context", METHODS["memory.context"].summary)
    context.add_argument(
        "query", nargs="*", metavar="QUERY", help="words to look for; without any the most used records"
    )
    _add_limit(context, "records, at most 20", default=10)
    _add_scope(context)
    commands.add("legacy", "reading:legacy", METHODS["memory.legacyRecords"].summary)
    settings = commands.add(
        "settings", "reading:settings", "Show whether memory is on, or switch it on or off"
    )
    settings.add_argument("enabled", nargs="?", choices=("on", "off"))
    call = commands.add(
        "call", "reading:call_method", "Call one method of the contract and write its envelope", json=False
    )
    call.add_argument("method", metavar="METHOD", help="for example memory.status")
    call.add_argument(
        "params", nargs="?", metavar="JSON", help="the request object, or - to read it from standard input"
    )


def _add_previews(commands: Commands) -> None:
    acts = commands.group("preview", "Look at one preview, apply it, discard it, or make one")
    show = acts.add("show", "previewing:show", "Show what a preview would change")
    apply = acts.add("apply", "changing:apply_preview", METHODS["memory.applyPreview"].summary)
    discard = acts.add("discard", "changing:discard_preview", METHODS["memory.discardPreview"].summary)
    for act in (show, apply, discard):
        act.add_argument(
            "preview_id", metavar="ID", help="the preview's id, as `dsh-memory previews` lists it"
        )
    _add_yes(apply)
    _add_yes(discard)
    add_preview_creation(acts)


def _add_changing(commands: Commands) -> None:
    clear = commands.add("clear", "changing:clear", METHODS["memory.clear"].summary)
    _add_confirm(clear, "DELETE_MEMORY")
    rollback = commands.add("rollback", "changing:rollback", METHODS["memory.rollback"].summary)
    rollback.add_argument("run_id", metavar="RUN", help="the run's id, as `dsh-memory runs` lists it")
    _add_confirm(rollback, "ROLLBACK_MEMORY")
    restore = commands.add(
        "restore", "changing:restore", "Bring back one version of a record by a new commit"
    )
    restore.add_argument("path", metavar="PATH", help="the record's file, such as handbook/project.md")
    restore.add_argument("commit", metavar="COMMIT", help="a commit of the record's history")
    _add_yes(restore)
    migrate = commands.add("migrate", "changing:migrate", METHODS["memory.migrateLegacy"].summary)
    migrate.add_argument("--dry-run", action="store_true", help="only list what would be migrated")
    _add_yes(migrate)
    _add_yes(commands.add("recover", "changing:recover", "Finish or undo a run whose process died"))
    save = commands.add("save", "changing:save", "Commit what editors left in the memory, as a journaled run")
    save.add_argument("-m", "--message", metavar="TEXT", help="what the commit says")
    _add_yes(save)
    edit = commands.add(
        "edit", "editing:edit", "Edit a private copy of one file and apply it as a journaled run", json=False
    )
    edit.add_argument("path", metavar="PATH", help="a path inside the memory, such as handbook/project.md")


def _add_serving(commands: Commands) -> None:
    commands.add("mcp", "mcp:serve_mcp", "Serve the memory to one MCP client on standard input", json=False)
    serve = commands.add("serve", "starting:serve", "Serve the memory to other programs", json=False)
    faces = serve.add_mutually_exclusive_group(required=True)
    faces.add_argument(
        "--stdio", action="store_true", help="to the DSH host: JSON-RPC on standard input and output"
    )
    faces.add_argument("--http", action="store_true", help="to HTTP clients")
    add_http_options(serve)


def starting_point() -> argparse.Namespace:
    """What the options that are accepted in every place are without being given."""
    return argparse.Namespace(root=None, dsh_home=None, json=False)


def _options_of_every_place() -> Parser:
    # No defaults, not by set_defaults either: all parsers share these actions, and a subcommand's default
    # would overwrite what stood in front of it. `starting_point` gives them.
    options = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    options.add_argument(
        "--root", metavar="DIR", help="the memory root (else $DSH_MEMORY_ROOT, else below the DSH home)"
    )
    options.add_argument("--dsh-home", metavar="DIR", help="the DSH home (else $DSH_HOME, else ~/.dsh)")
    options.add_argument("--version", action="version", version=f"dsh-memory {dsh_memory.__version__}")
    return options


def _add_limit(parser: Parser, what: str, *, default: int) -> None:
    parser.add_argument(
        "--limit", type=_positive, default=default, metavar="N", help=f"at most N {what} (default {default})"
    )


def _add_scope(parser: Parser) -> None:
    parser.add_argument(
        "--scope", choices=("active", "archive", "all"), default="active", help="(default active)"
    )


def _add_confirm(parser: Parser, value: str) -> None:
    parser.add_argument(
        "--confirm",
        metavar="VALUE",
        help=f"the machine value {value}; without it you are asked twice on a terminal",
    )


def _add_yes(parser: Parser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number
