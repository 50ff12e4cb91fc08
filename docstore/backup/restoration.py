"""Restoring: creates data directories for the members of new sets, from which servers are started.

The first member's directory of each part is made from the backup; the others are copies of it. The directories of all
parts get their names together, so a failed restore can be repeated unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bson.objectid import ObjectId

from docstore.backup.chain import Chain
from docstore.backup.directories import (
    check_free,
    copy_directory,
    copy_files,
    new_directories,
    opened,
    replay,
)
from docstore.backup.identity import NewSet, become, point_to, shards_in
from docstore.backup.repository import Repository
from docstore.backup.sources import CONFIG
from docstore.tools.terminal import Terminal, ToolFailed


@dataclass(frozen=True, slots=True)
class Member:
    """A future member of the part: its address, and its data directory."""

    part: str
    address: str
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The target of a restore: `members` of sets, or the one `directory` of a node. `set_names`: new set names, by
    part.
    """

    members: tuple[Member, ...]
    set_names: Mapping[str, str]
    directory: Path | None


def restore(repository: Repository, chain: Chain, plan: Plan, terminal: Terminal) -> None:
    """Errors: ToolFailed, OSError."""
    _check(chain, plan)
    if chain.base.kind == "node":
        assert plan.directory is not None, "checked"
        with new_directories([plan.directory]) as making:
            copy_files(repository, chain, "node", making[plan.directory])
            with opened(making[plan.directory]):
                pass
        terminal.say(f"restored {plan.directory}")
        return
    sets = {part.name: _new_set(plan, part.name, part.set_name) for part in chain.base.parts}
    with new_directories([member.directory for member in plan.members]) as making:
        for name in sets:
            directories = [making[member.directory] for member in plan.members if member.part == name]
            _restore_set(repository, chain, name, directories, sets, terminal)
    for name, new in sets.items():
        terminal.say(f"restored {name} as {new.connection}")


def _check(chain: Chain, plan: Plan) -> None:
    """Errors: ToolFailed."""
    names = {part.name for part in chain.base.parts}
    if chain.base.kind == "node":
        if plan.members or plan.directory is None:
            raise ToolFailed("the backup is that of a node: --dbpath says where it is restored")
        check_free(plan.directory)
        return
    if plan.directory is not None:
        raise ToolFailed(f"the backup is that of a {chain.base.kind}: --member says where each member is restored")
    missing = names - {member.part for member in plan.members}
    if missing:
        raise ToolFailed(f"--member is missing for {', '.join(sorted(missing))}")
    unknown = ({member.part for member in plan.members} | plan.set_names.keys()) - names
    if unknown:
        raise ToolFailed(f"the backup has no part {', '.join(sorted(unknown))}: it has {', '.join(sorted(names))}")
    _check_unique([member.address for member in plan.members], "address")
    directories = [member.directory.resolve() for member in plan.members]
    _check_unique(list(map(str, directories)), "directory")
    for directory in directories:
        if not set(directory.parents).isdisjoint(directories):
            raise ToolFailed(f"{directory} is in another member's directory")
    for member in plan.members:
        check_free(member.directory)


def _check_unique(values: Sequence[str], property_name: str) -> None:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ToolFailed(f"two members have the {property_name} {twice[0]}")


def _new_set(plan: Plan, part: str, old_name: str | None) -> NewSet:
    name = plan.set_names.get(part) or old_name
    assert name is not None, "what is no node is a set"
    return NewSet(name, tuple(member.address for member in plan.members if member.part == part))


def _restore_set(
    repository: Repository,
    chain: Chain,
    name: str,
    directories: Sequence[Path],
    sets: Mapping[str, NewSet],
    terminal: Terminal,
) -> None:
    """Create the members' directories of one part."""
    first, *copies = directories
    copy_files(repository, chain, name, first)
    with opened(first) as store:
        entries = replay(repository, chain, name, store)
        terminal.say(f"{name}: replayed {entries} oplog entries")
        become(store, sets[name], ObjectId())
        if chain.base.kind == "cluster":
            if name == CONFIG:
                _check_shards(shards_in(store), sets)
            point_to(store, name, sets)
    for copy in copies:
        copy_directory(first, copy)


def _check_shards(shards: Sequence[str], sets: Mapping[str, NewSet]) -> None:
    if sorted(shards) != sorted(sets.keys() - {CONFIG}):
        raise ToolFailed(
            f"at that time the cluster had the shards {', '.join(sorted(shards))}, and the backup has "
            f"{', '.join(sorted(sets.keys() - {CONFIG}))}: a shard was added or removed meanwhile"
        )
