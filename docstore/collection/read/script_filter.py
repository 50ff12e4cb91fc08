"""Scans under a filter with scripts ($where, $function): gather candidates, then run the scripts over them in batches.

The rest of the filter runs first: a script sees only documents whose match depends on it. Beside an `$or` alternative a
script may run needlessly; its errors are then ignored.
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
"""Maximum candidates per script batch. Batches start small, because few documents may be requested."""
PIECE_BYTES = 4 * 1024 * 1024
GATHER_SECONDS = 0.005


def has_scripts(tree: nodes.Filter | None) -> bool:
    return tree is not None and any(True for _ in scripts_of(tree))


def screened(
    items: Iterator[Any], tree: nodes.Filter, owned: Predicate | None, clock: Callable[[], float], *, pairs: bool
) -> Iterator[Any]:
    """Yield the documents (or record id, document pairs) that satisfy a filter with scripts."""
    weak_predicate = compile_filter(weakened(tree))
    narrow = weak_predicate if owned is None else And([weak_predicate, owned])
    holds = _Verdicts(tree)
    scripts = next(scripts_of(tree)).script
    assert scripts is not None, "a filter with scripts"
    gather: Any = scan_pairs if pairs else scan
    batch_size = AHEAD_FIRST
    status = None
    while status != EXHAUSTED:
        batch: list[Any] = []
        status = gather(items, narrow, batch, batch_size, PIECE_BYTES, clock, clock() + GATHER_SECONDS)
        if batch:
            documents: list[bytes] = list(map(itemgetter(1), batch)) if pairs else batch
            for item, verdict in zip(batch, holds.of(documents), strict=True):
                if verdict:
                    yield item
            batch_size = min(2 * batch_size, AHEAD_MOST)
        elif status != EXHAUSTED:
            scripts.scripts.yield_to_loop()


class _Verdicts:
    """Evaluates a filter with scripts over candidates: documents that pass the filter without its scripts."""

    def __init__(self, tree: nodes.Filter) -> None:
        children = tree.children if isinstance(tree, nodes.And) else (tree,)
        self._scripts = list(dict.fromkeys(scripts_of(tree)))
        # The other conjuncts have already passed these documents.
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
