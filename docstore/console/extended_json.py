"""Requests and replies of the console as canonical extended JSON, in which no value loses its type."""

from __future__ import annotations

from typing import Any

from bson import json_util
from bson.codec_options import DatetimeConversion
from bson.json_util import JSONMode, JSONOptions

from docstore.bson import document_to_python

_READING = JSONOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
_WRITING = JSONOptions(json_mode=JSONMode.CANONICAL)


class NotJson(Exception):
    """A text that is no object of extended JSON; the message says why."""


def read_object(text: bytes) -> dict[str, Any]:
    """The object of a text. Errors: NotJson."""
    try:
        value = json_util.loads(text.decode(), json_options=_READING)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise NotJson(str(error)) from None
    except Exception as error:
        # The errors of a malformed $oid, $regex or $binary are no ValueErrors.
        if type(error).__module__.partition(".")[0] != "bson":
            raise
        raise NotJson(str(error)) from None
    if not isinstance(value, dict):
        raise NotJson("it is no object")
    return value


def written(document: bytes) -> str:
    """A raw document as text."""
    return json_util.dumps(document_to_python(document), json_options=_WRITING)
