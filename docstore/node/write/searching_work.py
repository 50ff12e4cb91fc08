"""Base of the statements that search for the documents they change."""

from __future__ import annotations

from docstore.collection.collection import Collection
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.shard_filter import Hold
from docstore.node.write.evaluated import evaluated
from docstore.node.write.identity import Match
from docstore.node.write.search import Search, open_search
from docstore.node.write.statement_loop import WriteTarget
from docstore.query.filter.tree import Filter
from docstore.query.find import Hint
from docstore.query.sort import UNSORTED, Sort


class SearchingWork:
    """A statement with its open search and its hold on owned ranges, if any; `close` releases both.

    Subclasses implement `docstore.node.write.statement_loop.Work`.
    """

    statements = 1

    def __init__(self, target: WriteTarget) -> None:
        self._target = target
        self._search: Search | None = None
        self._collection: Collection | None = None
        self._hold: Hold | None = None
        self._evaluated = evaluated()

    def outlives(self) -> bool:
        return self._hold is not None and self._hold.still_owns()

    def pause(self) -> None:
        if self._search is not None:
            self._search.pause()

    def close(self) -> None:
        self._close_search()
        if self._hold is not None:
            self._hold.close()
            self._hold = None

    def cut_short(self, error: CommandError) -> CommandError:
        return error

    def _close_search(self) -> None:
        if self._search is not None:
            self._search.close()
            self._search = None

    def _searched(self, collection: Collection) -> Search | None:
        """Return the open search; None if a new one is needed, also because the collection was replaced."""
        return self._search if collection is self._collection else None

    def _begin_search(
        self, collection: Collection, tree: Filter, *, multi: bool, hint: Hint | None, sort: Sort = UNSORTED
    ) -> Search:
        """Open a search for the matches of a filter, all of them if `multi`. Errors: Overtaken."""
        target = self._target
        self._close_search()
        self._hold = self._hold or target.hold(tree, multi=multi)
        self._collection = collection
        self._search = open_search(
            target.node, collection, tree,
            sort=sort, hint=hint, once=not multi, offloaded=self._evaluated, execution=target.execution,
        )  # fmt: skip
        return self._search

    def _found(self, search: Search, wanted: int, owned: Predicate | None, until: float) -> list[Match]:
        """Return up to `wanted` matches, as `Search.take` does."""
        matches = search.take_offloaded(
            self._evaluated, wanted, owned if self._hold is None else self._hold.owned, until
        )
        if self._evaluated is not None:
            search.pause()
        return matches
