from __future__ import annotations

from docstore import key_layout


def test_keys_order_as_their_numbers_do() -> None:
    pairs = [(1, 0), (1, 1), (1, 255), (1, 256), (1, 2**40), (2, 0), (300, 5)]
    keys = [key_layout.record_key(*pair) for pair in pairs]
    assert keys == sorted(keys)
    assert [(key_layout.ident_of(key), key_layout.last_long(key)) for key in keys] == pairs


def test_the_range_of_an_ident_holds_its_keys_and_no_others() -> None:
    start, end = key_layout.ident_bytes(7), key_layout.ident_end(7)
    assert start <= key_layout.record_key(7, 0) < key_layout.record_key(7, 2**64 - 1) < end
    assert not start <= key_layout.record_key(8, 0) < end
    assert not start <= key_layout.record_key(6, 2**64 - 1) < end


def test_what_comes_after_a_prefix_is_behind_every_key_with_it() -> None:
    for prefix in (b"s", b"k\xff", b"\x01\xff\xff"):
        assert prefix + b"\xff" * 20 < key_layout.after_prefix(prefix)


def test_no_prefix_in_the_meta_family_is_the_beginning_of_another() -> None:
    prefixes = [value for name, value in vars(key_layout).items() if name.endswith(("_KEY", "_PREFIX"))]
    assert key_layout.SESSION_PREFIX in prefixes
    for one in prefixes:
        assert [other for other in prefixes if other.startswith(one)] == [one]
