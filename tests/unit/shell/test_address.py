"""Every form of address that users type."""

from __future__ import annotations

import pytest

from shell.address import Address, AddressError, parse_address

LOCAL = ("127.0.0.1", 27017)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", Address((LOCAL,))),
        ("blog", Address((LOCAL,), "blog")),
        ("192.168.1.233:10003", Address((("192.168.1.233", 10003),))),
        ("host:1/blog", Address((("host", 1),), "blog")),
        ("host.example/blog", Address((("host.example", 27017),), "blog")),
        ("localhost", Address((("localhost", 27017),))),
        ("a:1,b:2/blog", Address((("a", 1), ("b", 2)), "blog")),
        ("set_a/a:1,b:2", Address((("a", 1), ("b", 2)), "test", "set_a")),
        ("set_a/a:1,b:2/blog", Address((("a", 1), ("b", 2)), "blog", "set_a")),
        ("mongodb://a", Address((("a", 27017),))),
        ("mongodb://a:1,b:2/blog?replicaSet=s", Address((("a", 1), ("b", 2)), "blog", "s")),
        ("mongodb://[::1]:5/x", Address((("::1", 5),), "x")),
        ("mongodb://a/?connectTimeoutMS=1500", Address((("a", 27017),), "test", None, 1.5)),
    ],
)
def test_forms(text: str, address: Address) -> None:
    assert parse_address(text) == address


def test_host_and_port_options() -> None:
    assert parse_address("blog", host="h", port=5) == Address((("h", 5),), "blog")
    assert parse_address("", host="s/h:1,i:2") == Address((("h", 1), ("i", 2)), "test", "s")
    assert parse_address("", port=5) == Address((("127.0.0.1", 5),))


@pytest.mark.parametrize(
    "text",
    ["mongodb://u:p@a/x", "mongodb+srv://a", "a:port", "a:0", "a:1,,b:2", "mongodb://a/?ssl=true", "mongodb://"],
)
def test_what_cannot_be_honoured_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        parse_address(text)


def test_options_do_not_mix_with_a_uri() -> None:
    with pytest.raises(AddressError):
        parse_address("mongodb://a", port=5)


@pytest.mark.parametrize("text", ["a:1", "a:1,b:2", "s/a:1,b:2"])
def test_an_address_prints_as_it_is_typed(text: str) -> None:
    assert str(parse_address(text)) == text
