"""The fast path of `$group`: what callers use of `grouping`, `group_values` and `group_states`."""

from docstore.bson.group_states import LAST_MAX, LAST_MIN, STATES, State
from docstore.bson.group_values import CallSource, ConstantSource, DocumentSource, PathSource, Source
from docstore.bson.grouping import Group, Grouping

__all__ = [
    "LAST_MAX",
    "LAST_MIN",
    "STATES",
    "CallSource",
    "ConstantSource",
    "DocumentSource",
    "Group",
    "Grouping",
    "PathSource",
    "Source",
    "State",
]
