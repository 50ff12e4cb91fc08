"""A console whose clients may have certificates, and such clients."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from docstore.commands.access.control import X509
from docstore.net.tls.certificates import TlsCertificates
from docstore.options import TlsOptions
from docstore.options.values import TlsMode
from tests.harness.certificates import Authority, name
from tests.unit.console.served import Console, console

ANN = "CN=ann,DC=org"
BY_CERTIFICATE = {"mechanism": X509}


class Clients:
    """What clients of a console connect with: `ann`'s certificate, `bob`'s, or none. `options`: of the server."""

    def __init__(self, authority: Authority, **options: Any) -> None:
        self.authority = authority
        self.none = ssl.create_default_context(cafile=str(authority.ca_file))
        self.ann = self.showing(authority.issue("ann", name(DC="org", CN="ann")))
        self.bob = self.showing(authority.issue("bob", name(DC="org", CN="bob")))
        file = authority.issue("server", name(O="Docs", CN="server"))
        asked = {"ca_file": authority.ca_file, "without_certificates": True, **options}
        self.certificates = TlsCertificates(TlsOptions(mode=TlsMode.REQUIRE, certificate_key_file=file, **asked))

    def showing(self, file: Path) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.ca_file))
        context.load_cert_chain(file)
        return context

    @asynccontextmanager
    async def console(self) -> AsyncIterator[Console]:
        """There is a user whom ann's certificate names, who may read `shop` and the figures."""
        async with console(auth=True, certificates=self.certificates, context=self.none) as served:
            served.logins._refusal_seconds = 0
            root = await served.log_in("root")
            roles = [{"role": "read", "db": "shop"}, {"role": "clusterMonitor", "db": "admin"}]
            made = await served.command({"createUser": ANN, "roles": roles}, "$external", Cookie=root)
            assert "errmsg" not in made
            yield served
