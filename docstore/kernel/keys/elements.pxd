from docstore.bson.walk cimport (
    ARRAY, NULL, OBJECT, STRING, UNDEFINED, document_stop, find, name_end, value_end,
)
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.folding cimport TextFolding
from docstore.kernel.keys.writer cimport KeyWriter

cdef int _UNKNOWN
cdef Py_ssize_t MAX_PATH_NAMES

cdef int append_directed(
    KeyWriter out, int code, bytes raw, Py_ssize_t at, Py_ssize_t end, bint descending, TextFolding fold
) except -2

cdef class _Path:
    cdef list names
    cdef bint descending
    cdef TextFolding fold
    cdef list keys
    cdef long long depth_bits
    cdef KeyWriter _out
    cdef int follow(self, bytes raw, int code, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t depth) except -2
    cdef int _enter(self, bytes raw, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t depth) except -2
    cdef int _give(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -2

cdef Py_ssize_t _names_before(_Path path) except -2
