"""What commands about collections and processes need beyond, or instead of, the privilege that they declare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from docstore.bson.walk import BOOL, INT32
from docstore.commands.access.document_needs import pipeline_needs
from docstore.commands.access.need import Need, on_cluster, on_database, on_namespace
from docstore.commands.declaration import Needs
from docstore.commands.values import NUMBERS, integer_of, truth_of
from docstore.errors import Code, CommandError
from docstore.namespace import SECURITY_NAMESPACES, split_namespace
from docstore.security.privileges import ALL_DATABASES, ANY_ACTION, CLUSTER, EVERYTHING, collection, database

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context

_CQL_PARTS = re.compile(
    r"--[^\n]*|//[^\n]*|/\*.*?(?:\*/|$)|'(?:[^']|'')*'|\$\$.*?(?:\$\$|$)|(\"(?:[^\"]|\"\")*\"|[A-Za-z]\w*)(\s*\.(?!\d))?",
    re.DOTALL,
)
_CQL_CHANGES = {
    "insert": ("insert",), "update": ("update",), "delete": ("remove",), "truncate": ("remove",),
    "begin": ("insert", "update", "remove"),
}  # fmt: skip
_CQL_DEFINES = {
    "create": ("createCollection", "createIndex"), "alter": ("collMod",), "drop": ("dropCollection", "dropIndex"),
}  # fmt: skip


def create_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """A collection may be made by who may insert into it, which makes it too."""
    view_on = arguments["viewOn"]
    yield from on_namespace(context.namespace, "createCollection")
    if arguments["capped"]:
        yield from on_namespace(context.namespace, "convertToCapped")
    if view_on is not None:
        yield from _view_needs(context, view_on, arguments)


def coll_mod_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield what a change of options needs. Errors: InvalidOptions for half of a view's definition, of which the other
    half is not known here.
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
    """Who defines a view and may read it must be allowed to read what it shows."""
    (reading,) = on_namespace(context.namespace, "find")
    identity = context.connection.identity
    if identity is not None and identity.user.privileges.allow(reading.resource, reading.action):
        yield from pipeline_needs(f"{context.db}.{view_on}", arguments["pipeline"] or ())


def rename_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """Yield what a rename needs: within a database the right to rename there, which shows the user nothing new; else
    what copying and dropping would.
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
    """Return whether the right to rename in a database is enough for these two names and this user."""
    (db, name), (target_db, target_name) = split_namespace(source), split_namespace(target)
    identity = context.connection.identity
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
    """Any user may ask; the handler looks who does."""
    return ()


def list_collections_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    """Names of one's own collections may be asked for by who has any: the handler shows no others."""
    identity = context.connection.identity
    own = arguments["authorizedCollections"] and arguments["nameOnly"]
    if own and identity is not None and identity.user.privileges.on_any_in(context.db):
        return ()
    return on_database(context.db, "listCollections")


def profile_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    if arguments.value == -1 and not any(name in arguments for name in ("slowms", "sampleRate", "filter")):
        return on_namespace(f"{context.db}.system.profile", "find")
    return on_database(context.db, "enableProfiler")


def kill_cursors_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    """To end one's own cursors needs nothing, nor do those that are gone."""
    cursors, owner = context.services.cursors, context.owner
    if all(cursors.owner_of(cursor_id) in (None, owner) for cursor_id in arguments["cursors"] or ()):
        return ()
    identity = context.connection.identity
    if identity is not None and identity.user.privileges.allow(CLUSTER, "killAnyCursor"):
        return ()
    return on_namespace(context.namespace, "killAnyCursor")


def current_op_needs(_context: Context, arguments: Arguments) -> Iterable[Need]:
    code, data = arguments["$ownOps"] or (BOOL, b"\0")
    if (code == BOOL or code in NUMBERS) and truth_of(code, data):
        return ()
    return on_cluster("inprog")


def kill_op_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    """To end one's own operations needs nothing."""
    named = arguments["op"]
    if named is not None and named[0] == INT32:
        wanted = integer_of(*named)
        if any(each.id == wanted and each.context.owner == context.owner for each in context.services.operations):
            return ()
    return on_cluster("killop")


def named_database_needs(action: str) -> Needs:
    """Those of a command whose value is the name of the database that it is about."""

    def needs(_context: Context, arguments: Arguments) -> Iterable[Need]:
        return on_database(arguments.value, action)

    return needs


def settings_needs(action: str) -> Needs:
    """Those of a command about what the documents of config.settings say."""

    def needs(_context: Context, _arguments: Arguments) -> Iterable[Need]:
        return on_namespace("config.settings", action)

    return needs


def everywhere_needs(action: str) -> Needs:
    def needs(_context: Context, _arguments: Arguments) -> Iterable[Need]:
        return (Need(action, ALL_DATABASES),)

    return needs


def anything_needs(_context: Context, _arguments: Arguments) -> Iterable[Need]:
    """Whoever may do everything may do what cannot be said beforehand."""
    return (Need(ANY_ACTION, EVERYTHING),)


def validate_metadata_needs(_context: Context, arguments: Arguments) -> Iterable[Need]:
    """On the database that is named, else on all."""
    db = arguments["db"]
    return on_database(db, "validate") if db else (Need("validate", ALL_DATABASES),)


def batch_mutate_needs(context: Context, _arguments: Arguments) -> Iterable[Need]:
    return on_database(context.db, "insert", "remove")


_CQL_BY_TABLE = frozenset(("select", *_CQL_CHANGES, *_CQL_DEFINES))
_CQL_OF_ROLES = frozenset(("grant", "revoke", "list"))


def cql_actions(text: str) -> tuple[str, ...]:
    """What a statement does to the tables that it names, by its first word."""
    words = _cql_words(text)
    first = words[0][0].lower() if words else ""
    return _CQL_CHANGES.get(first) or _CQL_DEFINES.get(first) or ("find",)


def _cql_words(text: str) -> list[tuple[str, str]]:
    """The words of a statement, each with what qualifies the next by it."""
    return [(match[1], match[2]) for match in _CQL_PARTS.finditer(text) if match[1] is not None]


def cql_needs(context: Context, arguments: Arguments) -> Iterator[Need]:
    """By the first word of a statement, on the request's database and on those that its names are qualified with. Who
    may do that to a table of one of them is let in: the handler knows the tables. What a statement about roles needs,
    the commands that carry it out need.
    """
    words = _cql_words(arguments.value)
    first = words[0][0].lower() if words else ""
    second = words[1][0].lower() if len(words) > 1 else ""
    if first in _CQL_OF_ROLES or (first in _CQL_DEFINES and second in ("role", "user")):
        return
    databases = {context.db}
    for word, qualifies in words:
        if qualifies:
            databases.add(word[1:-1].replace('""', '"') if word.startswith('"') else word.lower())
    if first in _CQL_DEFINES and second in ("keyspace", "schema"):
        yield Need("dropDatabase" if first == "drop" else "createCollection", ALL_DATABASES)
        return
    actions, identity = cql_actions(arguments.value), context.connection.identity
    if first in _CQL_BY_TABLE and identity is not None:
        privileges = identity.user.privileges
        if any(privileges.on_any_in(db, *actions) for db in databases):
            return
    for db in sorted(databases):
        yield from on_database(db, *actions)
