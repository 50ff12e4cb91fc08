"""Error labels and codes from which drivers conclude that they may retry, and the errors that fail points induce."""

from __future__ import annotations

from typing import Any

import bson

from docstore.bson import append_fields, encoded_fields, get_field
from docstore.bson.walk import INT32, OBJECT
from docstore.commands.fail_points.registry import Failure
from docstore.commands.host import Host
from docstore.commands.values import integer_of
from docstore.errors import STATE_CHANGE_CODES, Code

VERSIONED_CODES = STATE_CHANGE_CODES - {Code.ShutdownInProgress, Code.InterruptedAtShutdown}
"""Error codes that carry the node's topology version. A node that shuts down sends none: its state is always news."""
RETRYABLE_WRITE_CODES = STATE_CHANGE_CODES | {
    Code.HostUnreachable,
    Code.HostNotFound,
    Code.NetworkTimeout,
    Code.ExceededTimeLimit,
    9001,
}
"""Error codes after which a driver may retry a retryable write."""
RETRYABLE_WRITE_LABEL = "RetryableWriteError"


def label_write_concern_error(body: bytes, host: Host) -> bytes:
    """Return a reply with the error labels and the topology version of its write concern error."""
    field = get_field(body, "writeConcernError")
    if field is None or field[0] != OBJECT:
        return body
    code = get_field(field[1], "code")
    if code is None or code[0] != INT32:
        return body
    number = integer_of(*code)
    extra: dict[str, Any] = {}
    if number in RETRYABLE_WRITE_CODES:
        extra["errorLabels"] = [RETRYABLE_WRITE_LABEL]
    if number in VERSIONED_CODES:
        extra["topologyVersion"] = host.state_version()
    return append_fields(body, bson.encode(extra)[4:-1]) if extra else body


def induce(body: bytes, failure: Failure, *, retried: bool) -> bytes:
    """Return a reply with a fail point's write concern error, and its error labels."""
    if failure.write_concern_error is None:
        return body
    extra = b"\x03writeConcernError\0" + failure.write_concern_error
    labels = failure.labels
    if labels is None and retried:
        code = get_field(failure.write_concern_error, "code")
        if code is not None and code[0] == INT32 and integer_of(*code) in RETRYABLE_WRITE_CODES:
            labels = (RETRYABLE_WRITE_LABEL,)
    if labels:
        extra += encoded_fields(bson.encode({"errorLabels": list(labels)}))
    return append_fields(body, extra)
