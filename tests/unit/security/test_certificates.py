"""Names in certificates as text, and which of them are of one cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from docstore.security.certificates import (
    BadCertificate,
    Certificate,
    read_certificate,
    read_first_certificate,
    subject_of,
)
from tests.harness.certificates import NAMES, Authority, name


def certificate(tmp_path: Path, subject: x509.Name) -> Certificate:
    return read_first_certificate(Authority(tmp_path).issue("it", subject).read_bytes())


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (name(C="DE", O="Docs", OU="Ops", CN="ann"), "CN=ann,OU=Ops,O=Docs,C=DE"),
        (name(CN='a, b + "c" \\ <d>; #e'), 'CN=a\\, b \\+ \\"c\\" \\\\ \\<d\\>\\; #e'),
        (name(CN=" a "), "CN=\\ a\\ "), (name(CN="#a"), "CN=\\#a"),
        (name(CN="zoë 日\n"), "CN=zo\\C3\\AB \\E6\\97\\A5\\0A"),
        (name(DC="org", emailAddress="a@b.c", CN="x"), "CN=x,emailAddress=a@b.c,DC=org"),
        (
            x509.Name([
                x509.RelativeDistinguishedName([
                    x509.NameAttribute(NAMES["O"], "Docs"), x509.NameAttribute(NameOID.PSEUDONYM, "p"),
                    x509.NameAttribute(NAMES["CN"], "q"),
                ])
            ]),
            "O=Docs+pseudonym=p+CN=q",
        ),
    ],
)  # fmt: skip
def test_a_subject_is_written_as_rfc_2253_writes_it(tmp_path: Path, subject: x509.Name, text: str) -> None:
    assert certificate(tmp_path, subject).subject.text == text


def test_processes_of_one_organisation_are_of_one_cluster(tmp_path: Path) -> None:
    own = certificate(tmp_path, name(O="Docs", OU="Ops", CN="one")).subject
    for other, member in (
        (name(OU="Ops", CN="two", O="Docs"), True), (name(O="Docs", CN="two"), False),
        (name(O="Docs", OU="Ops", DC="x"), False), (name(O="docs", OU="Ops"), False),
    ):  # fmt: skip
        assert own.is_member_with(certificate(tmp_path, other).subject) is member
    nobody = certificate(tmp_path, name(CN="one")).subject
    assert not nobody.is_member_with(nobody)


def test_what_is_no_certificate_is_refused() -> None:
    for read in (read_certificate, read_first_certificate):
        with pytest.raises(BadCertificate):
            read(b"nothing")


def test_a_name_as_text_is_the_subject_that_it_was_made_of(tmp_path: Path) -> None:
    for subject in (name(DC="org", O="Docs", OU="a, b", CN="zoë"), name(CN='"+\\'), name(emailAddress="a@b.c", CN="#")):
        found = certificate(tmp_path, subject).subject
        assert subject_of(found.text) == found
    for text in ("ann", "CN", "CN=a,,", "1x=a"):
        assert subject_of(text) is None
