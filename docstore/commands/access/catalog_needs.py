"""Privileges needed by catalog and process commands, in addition to or instead of the declared privilege."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from docstore.bson.allowance import spend
from docstore.bson.walk import BOOL, INT32
from docstore.commands.access.document_needs import pipeline_needs
from docstore.commands.access.need import Need, on_cluster, on_database, on_namespace
from docstore.commands.declaration import Needs
from docstore.commands.values import NUMBERS, integer_of, truth_of
from docstore.errors import Code, CommandError
from docstore.namespace import SECURITY_NAMESPACES, split_namespace
from docstore.query.value.long_lists import paced
from docstore.security.privileges import ALL_DATABASES, ANY_ACTION, CLUSTER, EVERYTHING, collection, database

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context

_CQL_PARTS = re.compile(
    r"--[^\n]*|//[^\n]*|/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|$)|\s+|'[^']*+(?:''[^']*+)*+'|\$\$.*?(?:\$\$|$)"
    r"|(\"[^\"]*+(?:\"\"[^\"]*+)*+\"|[A-Za-z]\w*+)(\s*+\.(?!\d))?",
    re.DOTALL,
)
_PER_CQL_PART = 64
"""Work units charged for a word, a string or a comment."""
_CQL_CHANGES = {
    "insert": ("insert",), "update": ("update",), "delete": ("remove",), "truncate": ("remove",),
    "begin": ("insert", "update", "remove"),
}  # fmt: skip
_CQL_DEFINES = {
    "create": ("createCollection", "createIndex"), "alter": ("collMod",), "drop": ("dropCollection", "dropIndex"),
}  # fmt: skip


def _may(context: Context, need: Need) -> bool:
    """True if the request has a user, who has that privilege."""
    identity = context.identity
    return identity is not None and identity.user.privileges.allow(need.resource, need.action)


def create_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of create.

    The right to insert suffices except for a view, since an insert creates the collection too.
    """
    view_on = arguments["viewOn"]
    (inserting,) = on_namespace(context.namespace, "insert")
    if view_on is not None or not _may(context, inserting):
        yield from on_namespace(context.namespace, "createCollection")
    if arguments["capped"]:
        yield from on_namespace(context.namespace, "convertToCapped")
    if view_on is not None:
        yield from _view_needs(context, view_on, arguments)


def coll_mod_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of collMod.

    Errors: InvalidOptions for half of a view's definition: the other half is unknown here.
    """
    yield from on_namespace(context.namespace, "collMod")
    view_on = arguments["viewOn"]
    if (view_on is None) != (arguments["pipeline"] is None):
        raise CommandError(
            Code.InvalidOptions, "Must specify both 'viewOn' and 'pipeline' when modifying a view and auth is enabled"
        )
    if view_on is not None:
        yield from _view_needs(context, view_on, arguments)


def _view_needs(context: Context, view_on: str, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of defining a view: a user who may read the view must be allowed to read what it shows."""
    (reading,) = on_namespace(context.namespace, "find")
    if _may(context, reading):
        yield from pipeline_needs(f"{context.db}.{view_on}", arguments["pipeline"] or ())


def rename_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of a rename.

    Within a database, the right to rename there, if it reveals nothing new to the user; else those of a copy and a
    drop.
    """
    source, target = arguments.value, arguments["to"]
    if not SECURITY_NAMESPACES.isdisjoint((source, target)):
        yield from anything_needs(context, arguments)
    if _may_rename_within(context, source, target):
        yield from on_database(split_namespace(source)[0], "renameCollectionSameDB")
    else:
        yield from on_namespace(source, "find", "dropCollection")
        yield from on_namespace(target, "insert", "createIndex")
    if arguments["dropTarget"]:
        yield from on_namespace(target, "dropCollection")


def _may_rename_within(context: Context, source: str, target: str) -> bool:
    """True if the right to rename in a database suffices for these two names and this user."""
    (db, name), (target_db, target_name) = split_namespace(source), split_namespace(target)
    identity = context.identity
    if identity is None or db != target_db or name.startswith("system.") or target_name.startswith("system."):
        return False
    privileges = identity.user.privileges
    if not privileges.allow(database(db), "renameCollectionSameDB"):
        return False
    return privileges.allow(collection(db, name), "find") or not privileges.allow(collection(db, target_name), "find")


def clone_as_capped_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    yield from on_namespace(context.namespace, "find")
    to = arguments["toCollection"]
    if to is not None:
        yield from on_namespace(f"{context.db}.{to}", "insert", "createIndex", "convertToCapped")


def no_needs(_context: Context, _arguments: Arguments) -> Iterable[Need]:
    """Return no needs: the handler checks the user."""
    return ()


def list_collections_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    """Return the needs of listCollections; none for the names of the user's own collections, which the handler
    selects.
    """
    identity = context.identity
    own = arguments["authorizedCollections"] and arguments["nameOnly"]
    if own and identity is not None and identity.user.privileges.on_any_in(context.db):
        return ()
    return on_database(context.db, "listCollections")


def profile_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    if arguments.value == -1 and not any(name in arguments for name in ("slowms", "sampleRate", "filter")):
        return on_namespace(f"{context.db}.system.profile", "find")
    return on_database(context.db, "enableProfiler")


def kill_cursors_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of killCursors, on the namespaces of the cursors; none for the user's own and for unknown
    cursors.
    """
    if _may(context, Need("killAnyCursor", CLUSTER)):
        return
    cursors, owner = context.services.cursors, context.owner
    for cursor_id in paced(arguments["cursors"] or ()):
        cursor = cursors.get(cursor_id)
        if cursor is not None and cursor.owner not in (None, owner):
            yield from on_namespace(cursor.namespace, "killAnyCursor")


def current_op_needs(_context: Context, arguments: Arguments) -> Iterable[Need]:
    code, data = arguments["$ownOps"] or (BOOL, b"\0")
    if (code == BOOL or code in NUMBERS) and truth_of(code, data):
        return ()
    return on_cluster("inprog")


def kill_op_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    """Return the needs of killOp; none for the user's own operations."""
    named = arguments["op"]
    if named is not None and named[0] == INT32:
        op_id = integer_of(*named)
        if any(
            operation.id == op_id and operation.context.owner == context.owner
            for operation in context.services.operations
        ):
            return ()
    return on_cluster("killop")


def named_database_needs(action: str) -> Needs:
    """Return the needs of a command whose value names its database."""

    def needs(_context: Context, arguments: Arguments) -> Iterable[Need]:
        return on_database(arguments.value, action)

    return needs


def settings_needs(action: str) -> Needs:
    """Return the needs of a command about the documents of config.settings."""

    def needs(_context: Context, _arguments: Arguments) -> Iterable[Need]:
        return on_namespace("config.settings", action)

    return needs


def anything_needs(_context: Context, _arguments: Arguments) -> Iterable[Need]:
    """Require anyAction on anyResource: the privileges needed depend on what the command finds."""
    return (Need(ANY_ACTION, EVERYTHING),)


def validate_metadata_needs(_context: Context, arguments: Arguments) -> Iterable[Need]:
    """Require `validate` on the named database, else on all."""
    db = arguments["db"]
    return on_database(db, "validate") if db else (Need("validate", ALL_DATABASES),)


def batch_mutate_needs(context: Context, _arguments: Arguments) -> Iterable[Need]:
    return on_database(context.db, "insert", "remove")


_CQL_BY_TABLE = frozenset(("select", *_CQL_CHANGES, *_CQL_DEFINES))
_CQL_OF_ROLES = frozenset(("grant", "revoke", "list"))


def cql_actions(text: str) -> tuple[str, ...]:
    """Return the actions of a CQL statement on its tables, by its first word."""
    first, _ = next(_cql_words(text), ("", ""))
    return _actions_of(first.lower())


def _actions_of(first: str) -> tuple[str, ...]:
    return _CQL_CHANGES.get(first) or _CQL_DEFINES.get(first) or ("find",)


def _cql_words(text: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a statement, each with the separator that qualifies the next word."""
    for match in _CQL_PARTS.finditer(text):
        spend(_PER_CQL_PART + match.end() - match.start())
        if match[1] is not None:
            yield match[1], match[2]


def cql_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield the needs of a CQL statement, by its first word.

    They apply to the request's database and to the keyspaces that qualify its names. A privilege on any table of one of
    them suffices here: the handler checks the tables. Statements about roles are checked by the commands that execute
    them.
    """
    words = _cql_words(arguments.value)
    start = list(islice(words, 2))
    first, second = (word.lower() for word, _ in (*start, ("", ""), ("", ""))[:2])
    if first in _CQL_OF_ROLES or (first in _CQL_DEFINES and second in ("role", "user")):
        return
    databases = {context.db}
    for word, qualifies in chain(start, words):
        if qualifies:
            databases.add(word[1:-1].replace('""', '"') if word.startswith('"') else word.lower())
    if first in _CQL_DEFINES and second in ("keyspace", "schema"):
        yield Need("dropDatabase" if first == "drop" else "createCollection", ALL_DATABASES)
        return
    actions, identity = _actions_of(first), context.identity
    if first in _CQL_BY_TABLE and identity is not None:
        privileges = identity.user.privileges
        if any(privileges.on_any_in(db, *actions) for db in databases):
            return
    for db in sorted(databases):
        yield from on_database(db, *actions)
