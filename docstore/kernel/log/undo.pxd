from docstore.kernel.keys.writer cimport KeyWriter, taken, writer
from docstore.bson.walk cimport same_end, same_front

cdef Py_ssize_t _WORTHWHILE

cdef int put_undo(KeyWriter out, int family, bytes key, bytes previous) except -1
cdef int _put_undo_change(KeyWriter out, int family, bytes key, bytes before, bytes after) except -1
cdef int _put_made(KeyWriter out, int family, list[bytes] keys) except -1
cdef int _put_removed(KeyWriter out, int family, dict[bytes, bytes] entries) except -1
cdef int put_document_undo(KeyWriter out, int records, int indexes, unsigned long long ident, bytes record_key, bytes stands, bytes stood, dict[bytes, bytes] removed, list[bytes] made) except -1
cdef int _put_counted(KeyWriter out, unsigned long long ident, bytes document, bytes before) except -1
