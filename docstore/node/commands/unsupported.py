"""Commands that MongoDB has and a data node of this server has not, each with the sentence that refuses it.

Kept apart from what is served: "not supported" and "no such command" are different replies.
"""

from __future__ import annotations

from docstore.aggregation.unsupported import SEARCH_COMMANDS

_OPLOG = "the oplog is written by this server alone"
_POOLS = "connections to other members are not pooled by names that could be given here"
_MONITORING = "nothing is reported to anyone outside"

UNSUPPORTED = {
    **SEARCH_COMMANDS,
    "appendOplogNote": _OPLOG,
    "applyOps": _OPLOG,
    "connPoolSync": _POOLS,
    "dbCheck": "members are compared with dbHash",
    "dropConnections": _POOLS,
    "getDiagnosticData": "diagnostic data are not collected",
    "getFreeMonitoringStatus": _MONITORING,
    "replSetResizeOplog": "the oplog keeps the size that it was made with",
    "setFreeMonitoring": _MONITORING,
    "setProfilingFilterGlobally": "the profiler has no filter for all databases",
    "setUserWriteBlockMode": "writes of users cannot be blocked",
}
