"""The first requests of a connection: what is offered, what STARTUP may ask for, what may come when."""

from __future__ import annotations

from enum import Enum, auto

from docstore.widecolumn.cql.system.topology import CQL_VERSION
from docstore.widecolumn.protocol.compression import ALGORITHMS, LZ4
from docstore.widecolumn.protocol.errors import ProtocolViolation
from docstore.widecolumn.protocol.notation import string_multimap
from docstore.widecolumn.protocol.opcodes import V5, Opcode


class Stage(Enum):
    """The progress of a connection."""

    STARTUP = auto()
    LOGIN = auto()
    PROOF = auto()
    """A password is being checked."""
    READY = auto()


def check_stage(stage: Stage, opcode: Opcode) -> None:
    """ProtocolViolation for a request that is too early or too late."""
    if stage is Stage.STARTUP and opcode not in (Opcode.STARTUP, Opcode.OPTIONS):
        raise ProtocolViolation(f"Unexpected message {opcode.name}, expecting STARTUP or OPTIONS")
    if stage is Stage.LOGIN and opcode is not Opcode.AUTH_RESPONSE:
        raise ProtocolViolation(f"Unexpected message {opcode.name}, expecting SASL_RESPONSE")
    if stage is Stage.PROOF:
        raise ProtocolViolation(f"Unexpected message {opcode.name} before the answer to a SASL_RESPONSE")
    if stage is Stage.READY and opcode in (Opcode.STARTUP, Opcode.AUTH_RESPONSE):
        raise ProtocolViolation(f"Unexpected message {opcode.name}, the connection is already initialized")


def supported(version: int | None) -> bytes:
    """The body of SUPPORTED."""
    return string_multimap(
        {
            "CQL_VERSION": [CQL_VERSION],
            "COMPRESSION": [LZ4] if version == V5 else list(ALGORITHMS),
            "PROTOCOL_VERSIONS": ["4/v4", "5/v5"],
        }
    )


def agreed_compression(options: dict[str, str], version: int | None) -> str | None:
    """Check the options of STARTUP; return the algorithm that they name. ProtocolViolation."""
    if "CQL_VERSION" not in options:
        raise ProtocolViolation("Missing value CQL_VERSION in STARTUP message")
    if not options["CQL_VERSION"].startswith("3."):
        raise ProtocolViolation(
            f"CQL version {options['CQL_VERSION']} is not supported by the binary protocol (supported version are "
            ">= 3.0.0)"
        )
    name = options.get("COMPRESSION")
    if not name:
        return None
    algorithm = name.lower()
    if algorithm not in ALGORITHMS:
        raise ProtocolViolation(f"Unknown compression algorithm: {name}")
    if version == V5 and algorithm != LZ4:
        raise ProtocolViolation(f"Unsupported compression type for protocol v5: {name}")
    return algorithm
