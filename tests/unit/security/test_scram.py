"""Both sides of SCRAM talk to each other; what the RFCs print is what comes out."""

from __future__ import annotations

import base64
import unicodedata
from types import SimpleNamespace
from typing import Literal

import pytest

from docstore import combining_marks
from docstore.security import saslprep
from docstore.security.names import UserName
from docstore.security.saslprep import NotPreparable, prepared
from docstore.security.scram import MECHANISMS, SHA_1, SHA_256, Credential, Malformed, client_keys, secret_of, unescaped
from docstore.security.scram_client import ScramError, conversation
from docstore.security.scram_server import ClientFirst, ServerConversation, pretended_credential

SALT = bytes(range(16))
PRETENDED = pretended_credential(SHA_256, UserName("nobody", "admin"), b"secret", 15_000)


def kept(mechanism: str, user: str, password: str) -> Credential:
    return Credential.derived(mechanism, secret_of(mechanism, user, password, stored=True), SALT, 5_000)


def login(mechanism: str, user: str, password: str, credential: Credential | None) -> bool:
    """Whether the server takes the client; the client sees that the server knows the password."""
    client = conversation(mechanism, user, password, b"client nonce")
    server = ServerConversation(ClientFirst(next(client), "admin"), credential, PRETENDED, b"server nonce")
    proof = server.prove(client.send(server.challenge))
    if proof is None:
        return False
    with pytest.raises(StopIteration):
        client.send(proof)
    return True


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["ann", "a,b=c", "\u00fc"])
def test_who_knows_the_password_gets_in(mechanism: str, user: str) -> None:
    credential = kept(mechanism, user, "pencil")
    assert login(mechanism, user, "pencil", credential)
    assert not login(mechanism, user, "pen", credential)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_message_holds_the_password_or_what_is_kept_of_it(mechanism: str) -> None:
    credential = kept(mechanism, "ann", "pencil")
    client = conversation(mechanism, "ann", "pencil", b"client nonce")
    messages = [next(client)]
    server = ServerConversation(ClientFirst(messages[0], "admin"), credential, PRETENDED, b"server nonce")
    messages.append(server.challenge)
    messages.append(client.send(server.challenge))
    messages.append(server.prove(messages[-1]) or b"")
    secrets = [b"pencil", secret_of(mechanism, "ann", "pencil", stored=True)]
    secrets += [str(credential.document()[name]).encode() for name in ("storedKey", "serverKey")]
    assert len(messages) == 4
    assert not [secret for secret in secrets for message in messages if secret in message]


def test_who_does_not_exist_does_not_get_in_whatever_the_password() -> None:
    assert not login(SHA_256, "nobody", "pencil", None)
    again = pretended_credential(SHA_256, UserName("nobody", "admin"), b"secret", 15_000)
    assert again == PRETENDED, "asking twice shows nothing"
    assert pretended_credential(SHA_256, UserName("other", "admin"), b"secret", 15_000) != PRETENDED


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = Credential.derived(SHA_256, b"pencil", salt, 4096)
    first = ClientFirst(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", "admin")
    server = ServerConversation(first, credential, PRETENDED, b"")
    # The RFC's nonce of the server is no base64 of anything: it is put in by hand.
    server._nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    server._challenge = f"r={server._nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    last = f"c=biws,r={server._nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert server.prove(last.encode()) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_rfc_5802() -> None:
    keys = client_keys("SCRAM-SHA-1", b"pencil", base64.b64decode("QSXCR+Q6sek8bf92"), 4096)
    assert base64.b64encode(keys.client_key) == b"4jTEe/bDZpbdbYUrmaqiuiZVVyg="


def test_a_credential_comes_back_from_its_document() -> None:
    credential = kept(SHA_1, "ann", "pencil")
    assert Credential.from_document(SHA_1, credential.document()) == credential
    assert list(credential.document()) == ["iterationCount", "salt", "storedKey", "serverKey"]
    assert Credential.from_document(SHA_1, {}) is None
    assert Credential.from_document(SHA_1, {**credential.document(), "storedKey": "AAAA"}) is None
    assert Credential.from_document(SHA_1, {**credential.document(), "salt": "*"}) is None


@pytest.mark.parametrize(
    "message",
    [
        b"", b"n", b"n,,", b"n,,n=a", b"n,,r=b", b"n,,n=,r=b", b"n,,n=a,r=", b"n,,r=b,n=a", b"p=tls-unique,,n=a,r=b",
        b"n,a=other,n=a,r=b", b"n,,n=a=b,r=c", b"n,,n=a,n=b,r=c", b"\xff\xff", b"n,,m=x,n=a,r=b",
    ],
)  # fmt: skip
def test_a_first_message_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(Malformed):
        ClientFirst(message, "admin")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"c=biws",
        b"c=biws,r=other,p=AAAA",
        b"c=AAAA,r=NONCE,p=AAAA",
        b"c=biws,r=NONCE,p=AAAA",
        b"c=biws,r=NONCE,p=*",
    ],
)
def test_a_last_message_that_is_none_is_refused(message: bytes) -> None:
    first = ClientFirst(b"n,,n=a,r=b", "admin")
    server = ServerConversation(first, kept(SHA_256, "a", "p"), PRETENDED, b"x")
    nonce = server.challenge.split(b",")[0][2:]
    with pytest.raises(Malformed):
        server.prove(message.replace(b"NONCE", nonce))


def test_names_are_unescaped() -> None:
    assert unescaped("a=2Cb=3Dc") == "a,b=c"
    for bad in ("a=", "a=2", "a=41"):
        with pytest.raises(Malformed):
            unescaped(bad)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("plain", "plain"),
        ("I\u00adX", "IX"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0340", "\u0300"),
        ("a\u200bb", "ab"),
        ("a\u00ad\u0301", "\u00e1"),
        ("e" + "\u0316\u0301" * 15, "\u00e9" + "\u0316" * 15 + "\u0301" * 14),
        ("\u00fc" * 16_384, "\u00fc" * 16_384),
        ("p" * 100_000, "p" * 100_000),
    ],
)
def test_passwords_have_one_form(text: str, made: str) -> None:
    assert prepared(text, stored=True) == made


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\u0007", "prohibited"), ("\ufffd", "prohibited"), ("\u200e", "prohibited"), ("\u06271", "bidi"),
        ("\u0627a\u0628", "bidi"), ("\u0221", "unassigned"), ("\U0001f600", "unassigned"), ("\u00ad", "empty"),
        ("\u00fc" * 16_385, "long"), ("a" + "\u0301" * 31, "marks"), ("\u0316\u00ad\u0301" * 16, "marks"),
        # Letters that are no marks themselves, but become some.
        ("\u0f73" * 16, "marks"), ("\uff76" + "\uff9e" * 31, "marks"), ("\u1ed8" + "\u0316" * 29, "marks"),
    ],
)  # fmt: skip
def test_some_texts_are_no_passwords(text: str, reason: str) -> None:
    with pytest.raises(NotPreparable) as refusal:
        prepared(text, stored=True)
    assert refusal.value.reason == reason


def test_the_time_of_preparing_does_not_grow_with_the_square_of_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    normalized: list[int] = []

    def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
        normalized.append(len(text))
        return unicodedata.normalize(form, text)

    for module in (saslprep, combining_marks):
        fake = SimpleNamespace(normalize=normalize, combining=unicodedata.combining)
        monkeypatch.setattr(module, "unicodedata", fake)
    with pytest.raises(NotPreparable):
        prepared("a" + "".join(mark * 4_000 for mark in "\u0345\u0300\u0316\u0334"))
    assert max(normalized) == 1, "nothing but single letters"


def test_a_client_does_not_take_a_server_that_shows_too_little() -> None:
    for challenge in (b"r=x,s=AAAA,i=5000", b"", b"r=Y2xpZW50,i=5000", b"\xff"):
        client = conversation(SHA_256, "a", "p", b"client")
        next(client)
        with pytest.raises((ScramError, Malformed)):
            client.send(challenge)
