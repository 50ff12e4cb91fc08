"""The `docstore` command: backups of nodes, sets and clusters, and their restoration."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import click
from bson.timestamp import Timestamp
from pymongo.errors import PyMongoError

import docstore
from docstore.backup.access import Access
from docstore.backup.chain import Chain, chain_to
from docstore.backup.creation import Creation, Wishes
from docstore.backup.failures import DamageBeside, OutOfReach
from docstore.backup.manifest import Manifest, parse_timestamp, timestamp_text
from docstore.backup.repository import Inventory, Repository
from docstore.backup.restoration import Member, Plan, restore
from docstore.backup.retention import select_retained
from docstore.backup.verification import verify
from docstore.tools.connection import connection_options
from docstore.tools.terminal import Terminal, ToolCommand, ToolFailed, failure_of

_HELP = {"help_option_names": ["--help"]}
_REPOSITORY = click.argument("repository", type=click.Path(path_type=Path, file_okay=False))
_QUIET = click.option("--quiet", is_flag=True, help="Say nothing but why it failed.")


class _Group(click.Group):
    command_class = ToolCommand


_Group.group_class = _Group


def _with_failures(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except PyMongoError as error:
            raise failure_of(error) from error
        except OSError as error:
            raise ToolFailed(str(error)) from error

    return run


def _time(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Timestamp | None:
    """Parse `seconds:increment`, or the last time before a second: `seconds`, or a date of ISO 8601."""
    if text is None:
        return None
    try:
        if text.replace(":", "", 1).isdecimal():
            return parse_timestamp(text)
        date = datetime.fromisoformat(text)
    except ValueError as error:
        example = "SECONDS:INCREMENT of the oplog, or a date such as 2026-11-25T10:00:00Z"
        raise click.BadParameter(f"{text!r} is no time: give {example}") from error
    if date.tzinfo is None:
        raise click.BadParameter("a date needs its time zone, as in 2026-11-25T10:00:00Z")
    return Timestamp(int(date.timestamp()), 0)


_AT = click.option("--at", callback=_time, help="The time: SECONDS:INCREMENT of the oplog, or what was before a date.")


@click.group("docstore", cls=_Group, context_settings=_HELP)
@click.version_option(docstore.__version__, message="Docstore version %(version)s")
def main() -> None:
    """Backups of nodes, replica sets and clusters."""
    # Files that it creates are private to their owner.
    os.umask(0o077)


@main.group("backup", context_settings=_HELP)
def backup() -> None:
    """Make, list, verify and remove the backups of a repository."""


@backup.command("create", context_settings=_HELP)
@_REPOSITORY
@connection_options
@click.option(
    "--keyFile", "key_file", type=click.Path(path_type=Path, dir_okay=False), help="Log in as the cluster's processes.",
)  # fmt: skip
@click.option("--full", is_flag=True, help="Copy all files, also those that the backup before has.")
@click.option("--oplogOnly", "oplog_only", is_flag=True, help="Copy what the oplog has had since the backup before.")
@click.option("--compare", is_flag=True, help="Record what the collections hold at the point, for verify.")
@click.option(
    "-j", "--parallel", type=click.IntRange(1), default=4, show_default=True, help="Files of a set copied at once.",
)  # fmt: skip
@_with_failures
def create(
    repository: Path, key_file: Path | None, full: bool, oplog_only: bool, compare: bool, parallel: int, **options: Any
) -> None:
    """Back up a node, a set or a cluster."""
    if oplog_only and (full or compare):
        raise click.UsageError("--oplogOnly copies no files: it goes with neither --full nor --compare")
    wishes = Wishes(full=full, oplog_only=oplog_only, compare=compare, parallel=parallel)
    terminal = Terminal(quiet=options["quiet"])
    with closing(Access(key_file, options)) as access, Repository.writing(repository) as opened:
        creation = Creation(access, opened, wishes, terminal)
        click.echo(creation.run().name)
        _report_damage(creation.damaged)


@backup.command("list", context_settings=_HELP)
@_REPOSITORY
@_with_failures
def listing(repository: Path) -> None:
    """Print the backups: name, kind, content, point, bytes, bytes that no other shares."""
    with Repository.reading(repository) as opened:
        inventory = opened.inventory()
        manifests = {manifest.name: manifest for manifest in inventory.manifests}
        for name in sorted((*manifests, *inventory.damaged)):
            if name in inventory.damaged:
                click.echo(f"{name}  {inventory.damaged[name]}")
                continue
            manifest = manifests[name]
            point = "-" if manifest.point is None else timestamp_text(manifest.point)
            sizes = f"{manifest.size:>12}  {opened.own_size(name):>12}"
            click.echo(f"{name}  {manifest.kind:7}  {manifest.content:11}  {point:16}  {sizes}")
    _report_damage(inventory.damaged.values())


@backup.command("verify", context_settings=_HELP)
@_REPOSITORY
@click.argument("name", required=False)
@_AT
@click.option("--tempDir", "temporary", type=click.Path(path_type=Path, exists=True), help="Where to restore to.")
@_QUIET
@_with_failures
def verification(repository: Path, name: str | None, at: Timestamp | None, temporary: Path | None, quiet: bool) -> None:
    """Restore a backup, or the newest, to a temporary place, and look at all of it."""
    with Repository.reading(repository) as opened:
        inventory = opened.inventory()
        chain = _chain(inventory, name, at)
        findings = verify(opened, chain, temporary)
    terminal = Terminal(quiet=quiet)
    for error in findings.errors:
        click.echo(error)
    if findings.errors:
        raise ToolFailed(f"the backup is not good: {len(findings.errors)} errors")
    terminal.say(
        f"{_text(chain)} is good: {findings.documents} documents of {findings.collections} collections, "
        f"{findings.compared} of them compared, {findings.entries} oplog entries replayed"
    )
    _report_damage(inventory.damaged.values())


def _chain(inventory: Inventory, name: str | None, at: Timestamp | None) -> Chain:
    """Errors: OutOfReach, Damaged where the backup that is named, or is the newest, is damaged."""
    if name is not None:
        inventory.require(name)
    elif at is None:
        inventory.require_newest()
    try:
        return chain_to(inventory.manifests, name, at)
    except OutOfReach as error:
        if not inventory.damaged:
            raise
        raise OutOfReach(f"{error.message}; {'; '.join(inventory.damaged.values())}") from error


def _report_damage(damaged: Collection[str]) -> None:
    """Errors: DamageBeside where there is any."""
    if damaged:
        raise DamageBeside(f"the work is done, but the repository is damaged: {'; '.join(damaged)}")


def _text(chain: Chain) -> str:
    return chain.backups[-1].name if chain.point is None else f"{chain.base.name} at {timestamp_text(chain.point)}"


@backup.command("prune", context_settings=_HELP)
@_REPOSITORY
@click.option("--keep", type=click.IntRange(1), help="Keep so many of the newest backups with files.")
@click.option("--keepDays", "days", type=click.IntRange(0), help="Keep what any time of so many days needs.")
@click.option("--dryRun", "dry_run", is_flag=True, help="Say what would be removed.")
@_QUIET
@_with_failures
def prune(repository: Path, keep: int | None, days: int | None, dry_run: bool, quiet: bool) -> None:
    """Remove the oldest backups, which nothing that is kept needs."""
    if (keep is None) == (days is None):
        raise click.UsageError("what is kept is said by --keep or by --keepDays")
    terminal = Terminal(quiet=quiet)
    with Repository.writing(repository) as opened:
        inventory = opened.inventory()
        manifests = inventory.manifests
        since = None if days is None else datetime.now(UTC) - timedelta(days=days)
        remaining = select_retained(manifests, count=keep, since=since)
        for manifest in manifests[: len(manifests) - len(remaining)]:
            terminal.say(f"{'would remove' if dry_run else 'removing'} {manifest.name}")
            if not dry_run:
                opened.remove(manifest.name)
        _report_damage(inventory.damaged.values())


@main.command("restore", context_settings=_HELP)
@_REPOSITORY
@click.option("--backup", "name", help="The backup to restore [the newest].")
@_AT
@click.option(
    "--member", "members", multiple=True, metavar="[PART/]HOST:PORT=DIRECTORY",
    help="A member of a set, or of a part of a cluster: config, or the name of a shard. May be given many times.",
)  # fmt: skip
@click.option("--setName", "set_names", multiple=True, metavar="[PART=]NAME", help="Another name for a set.")
@click.option("--dbpath", type=click.Path(path_type=Path, file_okay=False), help="Where to restore a node.")
@_QUIET
@_with_failures
def restoring(
    repository: Path,
    name: str | None,
    at: Timestamp | None,
    members: tuple[str, ...],
    set_names: tuple[str, ...],
    dbpath: Path | None,
    quiet: bool,
) -> None:
    """Make the data directories of a node, a set or a cluster from a backup."""
    with Repository.reading(repository) as opened:
        inventory = opened.inventory()
        chain = _chain(inventory, name, at)
        plan = Plan(
            members=tuple(_member(text, chain.base) for text in members),
            set_names=dict(_set_name(text, chain.base) for text in set_names),
            directory=dbpath,
        )
        restore(opened, chain, plan, Terminal(quiet=quiet))
        _report_damage(inventory.damaged.values())


def _member(text: str, manifest: Manifest) -> Member:
    """Errors: click.UsageError."""
    server, equals, directory = text.partition("=")
    part, slash, address = server.rpartition("/")
    host, _, port = address.rpartition(":")
    if not equals or not directory or not host or not port.isdecimal():
        raise click.UsageError(f"--member is [PART/]HOST:PORT=DIRECTORY, and not {text}")
    if not slash and manifest.kind == "cluster":
        raise click.UsageError(f"the backup is that of a cluster: --member PART/{text}")
    return Member(part or "set", address, Path(directory))


def _set_name(text: str, manifest: Manifest) -> tuple[str, str]:
    """Errors: click.UsageError."""
    part, equals, name = text.rpartition("=")
    if not name or (not equals and manifest.kind == "cluster"):
        raise click.UsageError(f"--setName is [PART=]NAME, with PART of a cluster, and not {text}")
    return part or "set", name


if __name__ == "__main__":
    main()
