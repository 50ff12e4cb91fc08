from docstore.kernel.keys.writer cimport KeyWriter, give_back, take_contents, writer
from docstore.bson.walk cimport find, value_end
from docstore.kernel.log.undo cimport DocumentChanges, LogBatch, put_undo

cdef int _put_session(KeyWriter out, bytes lsid, long long txn_number) except -1
cdef int _put_optime(KeyWriter out, bytes name, unsigned long long timestamp, long long term) except -1
cdef int _put_identity(KeyWriter out, bytes raw, bytes field) except -1
cdef int _put_times(KeyWriter out, unsigned long long timestamp, long long term, long long wall_ms) except -1
cpdef bytes build_entry(bytes head, bytes o, bytes middle, unsigned long long timestamp, long long term, long long wall_ms, bytes last)
cdef bytes _timestamp_key(KeyWriter out, unsigned long long timestamp)
cdef int _put_named(KeyWriter out, bytes document, bytes named) except -1
cpdef bytes session_row(long long txn_number, long long term, unsigned long long timestamp, long long wall_ms)

cdef class SessionSteps:
    cdef public bytes row
    cdef bytes _lsid
    cdef long long _txn_number
    cdef list _stmt_ids
    cdef bytes _row_key
    cdef unsigned long long _timestamp
    cdef long long _term

    cdef int put_head(self, KeyWriter out) except -1
    cdef int put_statement(self, KeyWriter out, Py_ssize_t position) except -1
    cdef int put_previous(self, KeyWriter out) except -1
    cdef int put_undo(self, KeyWriter out, int family) except -1
    cdef int move(self, unsigned long long timestamp, long long term, long long wall_ms) except -1

cdef int _put_head(KeyWriter out, bytes head, bytes operation, SessionSteps session) except -1
cdef int _put_tail(KeyWriter out, unsigned long long timestamp, long long term, long long wall_ms, SessionSteps session, Py_ssize_t position) except -1
