"""Every form of address that users type."""

from __future__ import annotations

import pytest

from shell.address import Address, AddressError, Credentials, parse_address
from shell.encryption import Encryption

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
        ("mongodb://a/?tls=true&tlsCAFile=%2Fca", Address((("a", 27017),), encryption=Encryption(ca_file="/ca"))),
        ("mongodb://a/?ssl=true", Address((("a", 27017),), encryption=Encryption())),
        (
            "mongodb://a/?tlsInsecure=true&tls=true&tlsAllowInvalidHostnames=true",
            Address((("a", 27017),), encryption=Encryption(invalid_certificates=True, invalid_hostnames=True)),
        ),
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
    [
        "mongodb+srv://a",
        "a:port",
        "a:0",
        "a:1,,b:2",
        "mongodb://",
        "mongodb://u@a/x",
        "mongodb://a/?ssl=true&tls=false",
        "mongodb://a/?tlsCAFile=x",
        "mongodb://a/?tls=false&tlsAllowInvalidCertificates=true",
        "mongodb://a/?nosuch=1",
        "mongodb://a/?readPreference=sometimes",
        "mongodb://a/?readPreferenceTags=a:b",
        "mongodb://a/?readPreference=primary&readPreferenceTags=a:b",
        "mongodb://a,b/?directConnection=true",
        "mongodb://a/?wtimeoutMS=-1",
        "mongodb://a/?retryWrites=yes",
        "mongodb://a/?authSource=x",
        "mongodb://u:p@a/?authMechanism=PLAIN",
    ],
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


def test_options_of_an_address_are_taken_up() -> None:
    address = parse_address(
        "mongodb://a,b/x?replicaSet=s&w=majority&journal=true&wtimeoutMS=500&readPreference=secondary"
        "&readPreferenceTags=dc:east,rack:1&readPreferenceTags=&readConcernLevel=majority&retryWrites=true"
        "&connectTimeoutMS=1500&socketTimeoutMS=0&appName=me"
    )
    assert address.defaults == {
        "writeConcern": {"w": "majority", "j": True, "wtimeout": 500},
        "readPreference": {"mode": "secondary", "tags": [{"dc": "east", "rack": "1"}, {}]},
        "readConcern": {"level": "majority"},
        "retryWrites": True,
    }
    assert (address.timeout, address.reply_timeout, address.application) == (1.5, None, "me")
    assert parse_address("mongodb://a/?w=2").defaults == {"writeConcern": {"w": 2}}


def test_users_are_known_to_a_database() -> None:
    address = parse_address("mongodb://u%40x:p%3Aw@a/shop?authMechanism=SCRAM-SHA-1")
    assert address.credentials == Credentials("u@x", "p:w", "shop", "SCRAM-SHA-1")
    assert parse_address("mongodb://u:p@a").credentials == Credentials("u", "p", "admin")
    assert parse_address("mongodb://u:p@a/shop?authSource=b").credentials == Credentials("u", "p", "b")
    assert parse_address("a:1/shop").with_credentials("u", "p", None, None).credentials == Credentials("u", "p", "shop")


@pytest.mark.parametrize("text", ["mongodb:/ann:hidden@h/", "ann:hidden@h:1/blog"])
def test_a_password_without_the_scheme_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(AddressError) as refusal:
        parse_address(text)
    assert "hidden" not in str(refusal.value)
