from docstore.kernel.keys.writer cimport KeyWriter, take_contents, writer
from docstore.bson.walk cimport same_end, same_front

cdef Py_ssize_t _WORTHWHILE

cdef int put_undo(KeyWriter out, int family, bytes key, bytes previous) except -1
cdef int _put_undo_change(KeyWriter out, int family, bytes key, bytes before, bytes after) except -1
cdef int _put_new_keys(KeyWriter out, int family, list[bytes] keys) except -1
cdef int _put_removed(KeyWriter out, int family, dict[bytes, bytes] entries) except -1

cdef class LogBatch:
    cdef readonly dict entries
    cdef readonly dict undo
    cdef readonly int records
    cdef readonly int indexes
    cdef readonly int sessions

cdef class DocumentChanges:
    cdef readonly list operations
    cdef readonly list record_keys
    cdef readonly list documents
    cdef readonly list before
    cdef readonly list new_keys
    cdef readonly list removed
    cdef public list named
    cdef readonly list stmt_ids

    cdef int put_undo(self, KeyWriter out, Py_ssize_t position, LogBatch log, unsigned long long ident) except -1

cdef int _put_counted(KeyWriter out, unsigned long long ident, bytes document, bytes before) except -1
