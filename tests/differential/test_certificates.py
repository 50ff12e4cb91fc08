"""The names of users in certificates, as a real mongod reads them."""

from __future__ import annotations

from pathlib import Path

import pymongo
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from pymongo.errors import OperationFailure

from docstore.security.certificates import read_first_certificate
from tests.harness.certificates import Authority, name
from tests.harness.reference import reference_server

pytestmark = pytest.mark.reference
KINDS = (
    NameOID.COUNTRY_NAME, NameOID.STATE_OR_PROVINCE_NAME, NameOID.LOCALITY_NAME, NameOID.STREET_ADDRESS,
    NameOID.USER_ID, NameOID.SURNAME, NameOID.GIVEN_NAME, NameOID.TITLE, NameOID.SERIAL_NUMBER, NameOID.COMMON_NAME,
    NameOID.POSTAL_CODE, NameOID.DN_QUALIFIER, NameOID.INITIALS, NameOID.GENERATION_QUALIFIER,
    NameOID.BUSINESS_CATEGORY,
    NameOID.JURISDICTION_COUNTRY_NAME, NameOID.JURISDICTION_LOCALITY_NAME, NameOID.JURISDICTION_STATE_OR_PROVINCE_NAME,
    NameOID.PSEUDONYM, NameOID.ORGANIZATION_IDENTIFIER, NameOID.UNSTRUCTURED_NAME,
)  # fmt: skip
SUBJECTS = {
    "escapes": name(CN='a, b + "c" \\ <d>; #e= f'),
    "edges": name(CN=" #a# ", O="#", OU="  "),
    "letters": name(CN="zoë 日本"),
    "mail": name(DC="org", emailAddress="a@b.c", CN="x"),
    "several": x509.Name([
        x509.RelativeDistinguishedName([
            x509.NameAttribute(kind, "v")
            for kind in (NameOID.ORGANIZATION_NAME, NameOID.PSEUDONYM, NameOID.COMMON_NAME)
        ])
    ]),
    "kinds": x509.Name([x509.NameAttribute(kind, "DE") for kind in KINDS]),
}  # fmt: skip


def test_subjects_are_written_as_the_reference_writes_them(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    data = tmp_path / "data"
    data.mkdir()
    options = ("--tlsMode", "requireTLS", "--tlsCAFile", str(authority.ca_file), "--tlsCertificateKeyFile",
               str(authority.issue("server")))  # fmt: skip
    with reference_server(data, *options) as port:
        for title, subject in SUBJECTS.items():
            path = authority.issue(title, subject)
            files = {"tlsCAFile": str(authority.ca_file), "tlsCertificateKeyFile": str(path)}
            with (
                pymongo.MongoClient("127.0.0.1", port, tls=True, **files) as client,
                pytest.raises(OperationFailure) as refusal,
            ):
                client["$external"].command({"authenticate": 1, "mechanism": "MONGODB-X509"})
            text = read_first_certificate(path.read_bytes()).subject.text
            assert refusal.value.details is not None
            assert f'"{text}"' in refusal.value.details["errmsg"], (text, refusal.value.details)
