from docstore.collection.oplog.oplog cimport Oplog
from docstore.collection.oplog.sessions cimport SessionState, SessionTable
from docstore.storage.engine cimport Batch

cdef class Journal:
    cdef public bint replaying
    cdef public bint logs_each
    cdef public object check_free
    cdef public object last
    cdef public Batch _batch
    cdef public Oplog _oplog
    cdef public SessionTable _sessions
    cdef public list _undo
    cdef public object _wall_ms
    cdef public object _logged
    cdef public object _logged_bytes
    cdef public object _undo_bytes
    cdef bytes _before
    cdef bytes _row
    cdef object _reserved
    cdef object _claims
    cdef object _claimed
    cdef bint _from_migrate
    cdef object _session
    cdef bytes _row_key
    cdef object _session_last
    cdef dict _statements
