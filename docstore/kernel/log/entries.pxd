from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.walk cimport find, value_end

cdef Py_ssize_t _SMALL
cdef list _spare

cdef KeyWriter _writer()
cdef bytes _taken(KeyWriter out)
cdef int _put_session(KeyWriter out, bytes lsid, long long txn_number) except -1
cdef int _put_optime(KeyWriter out, bytes name, unsigned long long timestamp, long long term) except -1
cdef int _put_times(KeyWriter out, unsigned long long timestamp, long long term, long long wall_ms) except -1
cpdef bytes build_entry(bytes head, bytes o, bytes middle, unsigned long long timestamp, long long term, long long wall_ms, bytes last)
cdef int _put_undo(KeyWriter out, int family, bytes key, bytes previous) except -1
