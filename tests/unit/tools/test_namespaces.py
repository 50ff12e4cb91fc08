"""Patterns of namespaces."""

from __future__ import annotations

import pytest

from docstore.tools.dumped.namespaces import Renaming, selected


def test_which_namespaces_are_selected() -> None:
    chosen = selected(["shop.*", "*.log"], ["shop.tmp*", r"a\*.log"])
    names = ["shop.a", "shop.a.b", "shop.tmp1", "x.log", "a*.log", "ab.log", "x.logs", "shopx.a"]
    assert [name for name in names if name in chosen] == ["shop.a", "shop.a.b", "x.log", "ab.log"]
    assert "anything.at.all" in selected([], [])
    assert "shop.a" in selected([], ["x.*"])


@pytest.mark.parametrize(
    ("source", "target", "name", "renamed"),
    [
        ("shop.*", "store.*", "shop.a.b", "store.a.b"),
        ("shop.*", "store.*", "x.a", "x.a"),
        ("*.log", "logs.*", "x.log", "logs.x"),
        ("$db$.$name$", "$name$.$db$", "a.b.c", "b.c.a"),
        ("data.$customer$_$account$", "$customer$.$account$", "data.ann_1", "ann.1"),
        ("shop.a", "shop.b", "shop.a", "shop.b"),
        ("*.a*", "*x.b*", "d.a1", "dx.b1"),
    ],
)
def test_new_names(source: str, target: str, name: str, renamed: str) -> None:
    assert Renaming([source], [target])(name) == renamed


@pytest.mark.parametrize(
    ("sources", "targets"),
    [
        (["a.*"], []),
        (["a.*"], ["a.b"]),
        (["a.b"], ["a.*"]),
        (["$a$.b"], ["$b$.b"]),
        (["$a$.$a$"], ["$a$.b"]),
        (["$a b$.c"], ["$a b$.c"]),
    ],
)
def test_patterns_that_do_not_go_together(sources: list[str], targets: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Renaming(sources, targets)
