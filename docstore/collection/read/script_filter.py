"""Scanning under a filter with scripts: many candidates at a time, then the verdicts on them.

The rest of the filter comes first, so that a script sees only documents on which the outcome depends; only where an
alternative stands beside a script (`$or`) may it be asked in vain, and then what it throws is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from docstore.errors import CommandError
from docstore.kernel.match.predicate import And, Predicate
from docstore.kernel.scan.documents import EXHAUSTED, scan, scan_pairs
from docstore.query.filter import tree as nodes
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.where import answered, scripts_of, weakened

AHEAD_FIRST = 16
AHEAD_MOST = 4096
"""Candidates gathered before the scripts are asked: few at first, because few documents may be wanted."""
PIECE_BYTES = 4 * 1024 * 1024
GATHER_SECONDS = 0.005


def has_scripts(tree: nodes.Filter | None) -> bool:
    return tree is not None and any(True for _ in scripts_of(tree))


def screened(
    items: Iterator[Any], tree: nodes.Filter, owned: Predicate | None, clock: Callable[[], float], *, pairs: bool
) -> Iterator[Any]:
    """The documents (or pairs of a record id and a document) that satisfy a filter with scripts."""
    rest = compile_filter(weakened(tree))
    narrow = rest if owned is None else And([rest, owned])
    holds = _Verdicts(tree)
    scripts = next(scripts_of(tree)).script
    assert scripts is not None, "a filter with scripts"
    gather: Any = scan_pairs if pairs else scan
    ahead = AHEAD_FIRST
    status = None
    while status != EXHAUSTED:
        found: list[Any] = []
        status = gather(items, narrow, found, ahead, PIECE_BYTES, clock, clock() + GATHER_SECONDS)
        if found:
            documents: list[bytes] = list(map(itemgetter(1), found)) if pairs else found
            for item, verdict in zip(found, holds.of(documents), strict=True):
                if verdict:
                    yield item
            ahead = min(2 * ahead, AHEAD_MOST)
        elif status != EXHAUSTED:
            scripts.scripts.rest()


class _Verdicts:
    """What a filter says about documents that its weakened form lets through."""

    def __init__(self, tree: nodes.Filter) -> None:
        children = tree.children if isinstance(tree, nodes.And) else (tree,)
        self._scripts = list(dict.fromkeys(scripts_of(tree)))
        # What stands beside scripts in a conjunction has let the documents through already.
        self._alone = len(self._scripts) == 1 and self._scripts[0] in children
        self._answers: dict[nodes.DocumentTest, dict[bytes, bool | CommandError]] = {}
        replaced = {
            script: nodes.DocumentTest(self._looked_up(script), script.name, script.argument)
            for script in self._scripts
        }
        self._predicate = compile_filter(answered(tree, replaced))

    def of(self, documents: list[bytes]) -> Iterator[bool]:
        if self._alone:
            script = self._scripts[0].script
            assert script is not None, "a node of a script"
            yield from map(_true, script.verdicts(documents))
            return
        for node in self._scripts:
            assert node.script is not None, "a node of a script"
            self._answers[node] = dict(zip(documents, node.script.verdicts(documents), strict=True))
        yield from map(self._predicate.matches, documents)

    def _looked_up(self, node: nodes.DocumentTest) -> Callable[[bytes], bool]:
        return lambda document: _true(self._answers[node][document])


def _true(verdict: bool | CommandError) -> bool:
    if isinstance(verdict, CommandError):
        raise verdict
    return verdict
