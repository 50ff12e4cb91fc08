"""The handshake of a connection by hello and its older spelling isMaster, and the facts it reports about the process.

- The first hello of a connection may carry the client's metadata and compressors; later ones may not change them.
- A hello may ask for the mechanisms of a user, and start an authentication.
- A hello with a topology version waits for the next change. One that allows exhaust is answered after every change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64
from bson.objectid import ObjectId

from docstore.bson import document_from, document_to_python, elements, get_field
from docstore.bson.walk import INT64, OBJECT
from docstore.commands.access import conversations
from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.client_connection import PROCESS_DRIVER
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Response, Result, Type
from docstore.commands.limits import (
    MAX_DOCUMENT_BYTES,
    MAX_WRITE_BATCH,
    MIN_WIRE_VERSION,
)
from docstore.commands.sessions.registry import TIMEOUT_MINUTES
from docstore.commands.values import wrong_type
from docstore.errors import CommandError
from docstore.wire.compression import agree
from docstore.wire.framing import MAX_MESSAGE_BYTES

MAX_METADATA_BYTES = 512
_VERSION = "hello.topologyVersion"
_VERSION_FIELDS = declared(
    Parameter("processId", Type.OBJECT_ID, required=True), Parameter("counter", Type.LONG, required=True)
)
PARAMETERS = (
    Parameter("helloOk", Type.SAFE_BOOL, default=False),
    Parameter("client", Type.ANY),
    Parameter("compression", Type.STRINGS, default=()),
    Parameter("topologyVersion", Type.OBJECT),
    Parameter("maxAwaitTimeMS", Type.INT, minimum=0),
    Parameter("saslSupportedMechs", (Type.STRING, Type.OBJECT)),
    Parameter("speculativeAuthenticate", Type.OBJECT),
)


class Greeter(Protocol):
    """The process-specific part of hello."""

    def hello(self) -> Mapping[str, Any]:
        """Return the process's fields: `isWritablePrimary` and those of its set, or `msg`."""

    def topology_version(self) -> Mapping[str, Any]:
        """Return `{processId, counter}`; the counter increases with every change of `hello`."""

    async def wait_topology_change(self, counter: int, timeout: float) -> None:
        """Return once the counter exceeds `counter`, or after `timeout` seconds."""


def greet(context: Context, arguments: Arguments, greeter: Greeter, *, legacy: bool) -> Response:
    """Return the reply of hello (`legacy`: of isMaster), at once or after a topology change."""
    _take_client(context, arguments)
    version, wait_ms = arguments["topologyVersion"], arguments["maxAwaitTimeMS"]
    if version is None:
        if wait_ms is not None:
            raise CommandError(31368, "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'")
        if arguments["saslSupportedMechs"] is None and arguments["speculativeAuthenticate"] is None:
            return _reply(context, arguments, greeter, legacy)
        return _reply_with_authentication(context, arguments, greeter, legacy)
    process, counter = _version_of(version)
    if wait_ms is None:
        raise CommandError(31368, "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'")
    present = greeter.topology_version()
    if process != present["processId"] or counter < present["counter"]:
        return _reply(context, arguments, greeter, legacy)
    if counter > present["counter"]:
        raise CommandError(
            51764,
            f"Received a topology version with counter: {counter} which is greater than the server topology version"
            f" counter: {present['counter']}",
        )
    return _reply_later(context, arguments, greeter, legacy, counter, wait_ms / 1000)


def _version_of(raw: bytes) -> tuple[ObjectId, int]:
    """Return (process, counter) of a topology version. Errors: TypeMismatch, 40414, 40415, 31372."""
    fields = parse_fields(_VERSION, raw, _VERSION_FIELDS)
    counter = get_field(raw, "counter")
    if counter is not None and counter[0] != INT64:
        raise wrong_type(f"{_VERSION}.counter", counter[0], "long")
    if fields["counter"] < 0:
        raise CommandError(31372, "topologyVersion must have a non-negative counter")
    return fields["processId"], fields["counter"]


async def _reply_later(
    context: Context, arguments: Arguments, greeter: Greeter, legacy: bool, counter: int, timeout: float
) -> Result:
    await greeter.wait_topology_change(counter, timeout)
    return _reply(context, arguments, greeter, legacy)


async def _reply_with_authentication(context: Context, arguments: Arguments, greeter: Greeter, legacy: bool) -> Result:
    reply = _reply(context, arguments, greeter, legacy)
    sasl_user = arguments["saslSupportedMechs"]
    if sasl_user is not None:
        reply["saslSupportedMechs"] = await conversations.mechanisms_for(context, sasl_user)
    speculative = arguments["speculativeAuthenticate"]
    if speculative is not None:
        speculative_reply = await conversations.speculate(context, speculative)
        if speculative_reply is not None:
            reply["speculativeAuthenticate"] = speculative_reply
    return reply


def following(context: Context, reply: bytes) -> bytes | None:
    """Return the next implied request of an exhaust stream: the same one, with the version just sent."""
    sent = get_field(reply, "topologyVersion")
    if sent is None or get_field(context.raw, "topologyVersion") is None:
        return None
    return document_from(
        (name, *sent) if name == "topologyVersion" else (name, code, data) for name, code, data in elements(context.raw)
    )


def _take_client(context: Context, arguments: Arguments) -> None:
    peer = context.connection
    if "client" in arguments:
        code, data = arguments["client"]
        if peer.greeted:
            raise CommandError(186, "The client metadata document may only be sent in the first hello")
        if code != OBJECT:
            raise CommandError(14, "The client metadata must be a document")
        if len(data) > MAX_METADATA_BYTES:
            raise CommandError(47, f"The client metadata document must be at most {MAX_METADATA_BYTES} bytes")
        peer.metadata = data
        metadata = document_to_python(data)
        application, driver = metadata.get("application"), metadata.get("driver")
        if isinstance(application, dict):
            peer.application_name = str(application.get("name", ""))
        peer.greets_as_process = isinstance(driver, dict) and driver.get("name") == PROCESS_DRIVER
        if context.services.audit is not None:
            context.services.audit.client_metadata(peer, data)
    if arguments["compression"] and not peer.greeted:
        allowed = context.services.switches.compressors
        peer.compressors = tuple(name for name in agree(arguments["compression"]) if name in allowed)
    peer.greeted = True


def _reply(context: Context, arguments: Arguments, greeter: Greeter, legacy: bool) -> dict[str, Any]:
    reply: dict[str, Any] = {}
    if arguments["helloOk"]:
        reply["helloOk"] = True
    reply["topologyVersion"] = greeter.topology_version()
    for name, value in greeter.hello().items():
        reply["ismaster" if legacy and name == "isWritablePrimary" else name] = value
    reply.update(_facts(context))
    if arguments["compression"]:
        reply["compression"] = list(context.connection.compressors)
    return reply


def _facts(context: Context) -> dict[str, Any]:
    number = context.connection.id
    return {
        "maxBsonObjectSize": MAX_DOCUMENT_BYTES,
        "maxMessageSizeBytes": MAX_MESSAGE_BYTES,
        "maxWriteBatchSize": MAX_WRITE_BATCH,
        "localTime": DatetimeMS(int(context.services.wall_clock() * 1000)),
        "logicalSessionTimeoutMinutes": TIMEOUT_MINUTES,
        "connectionId": Int64(number) if number > 0x7FFFFFFF else number,
        "minWireVersion": MIN_WIRE_VERSION,
        "maxWireVersion": context.services.switches.face.max_wire_version,
        "readOnly": False,
    }
