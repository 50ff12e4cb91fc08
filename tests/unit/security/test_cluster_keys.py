"""Keys of key files, and conversations between processes that know some of the same."""

from __future__ import annotations

import pytest

from docstore.security.cluster_keys import MECHANISM, BadKeys, ClusterKeys, parse_keys
from docstore.security.names import SYSTEM
from docstore.security.scram import LEAST_ITERATIONS, SALT_BYTES
from docstore.security.scram_client import ClientConversation, ScramError
from docstore.security.scram_server import ClientFirst, ServerConversation, pretended_credential

SALT = bytes(SALT_BYTES[MECHANISM])
PRETENDED = pretended_credential(MECHANISM, SYSTEM, b"secret", LEAST_ITERATIONS)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("abcdef", ("abcdef",)),
        (" ab cd\n\tef==\n\n", ("abcdef==",)),
        ("123456", ("123456",)),
        ("- abcdef\n- ghi jkl\n", ("abcdef", "ghijkl")),
        ("- abcdef", ("abcdef",)),
        ("[abcdef, '+/+/+/']", ("abcdef", "+/+/+/")),
        ("a" * 1024, ("a" * 1024,)),
    ],
)
def test_what_a_key_file_may_hold(text: str, keys: tuple[str, ...]) -> None:
    assert parse_keys(text) == keys


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a key or a list of keys"),
        ("[]", "a key or a list of keys"),
        ("key: abcdef", "a key or a list of keys"),
        ("- abcdef\n- key: abcdef", "a key or a list of keys"),
        ("- abcdef\n- [", "not YAML"),
        ("abcde", "5 characters"),
        ("a" * 1025, "1025 characters"),
        ("- abcdef\n- abc", "3 characters"),
        ("abcdef*", "none of base64"),
        ("abcdef\u00e9", "none of base64"),
        ("- abcdef\n- ghijkl\n- mnopqr\n", "3 keys"),
    ],
)
def test_what_a_key_file_may_not_hold(text: str, reason: str) -> None:
    with pytest.raises(BadKeys, match=reason) as refusal:
        parse_keys(text)
    assert "abcdef" not in str(refusal.value)


def keys_of(*keys: str) -> ClusterKeys:
    return ClusterKeys(keys, SALT, iterations=LEAST_ITERATIONS)


def takes(server: ClusterKeys, client: ClusterKeys, index: int = 0) -> bool:
    """Whether a process takes another that proves to know its key of that number."""
    talking = ClientConversation(MECHANISM, SYSTEM.user, b"nonce")
    first, *others = server.credentials
    answering = ServerConversation(ClientFirst(talking.first, SYSTEM.db), first, PRETENDED, b"other nonce", others)
    salt, iterations = talking.challenged(answering.challenge)
    proof = answering.prove(talking.proof(client.derive(index, salt, iterations)))
    assert client.cached(index, salt, iterations) is client.derive(index, salt, iterations)
    if proof is None:
        return False
    talking.verify(proof)
    return True


def test_any_key_of_the_server_is_taken() -> None:
    old, both, new = keys_of("old key"), keys_of("old key", "new key"), keys_of("new key")
    assert takes(old, keys_of("old key"))
    assert takes(both, old)
    assert takes(both, new)
    assert takes(new, both, 1)
    assert not takes(new, keys_of("old key", "new key"), 0)
    assert not takes(old, new)


def test_a_server_that_does_not_know_the_key_is_noticed() -> None:
    talking = ClientConversation(MECHANISM, SYSTEM.user, b"nonce")
    salt, iterations = talking.challenged(b"r=bm9uY2U=xyz,s=AAAA,i=5000")
    talking.proof(keys_of("the key").derive(0, salt, iterations))
    for answer in (b"v=AAAA", b"e=other-error", b"v=*", b"\xff"):
        with pytest.raises(ScramError):
            talking.verify(answer)


def test_what_is_pretended_of_a_user_is_the_same_wherever_the_key_is() -> None:
    texts = ("abcdef", "abcdef", "x+x+x+")
    keys = [ClusterKeys((text,), bytes([n]) * len(SALT), iterations=5000) for n, text in enumerate(texts)]
    assert keys[0].pretence == keys[1].pretence != keys[2].pretence
