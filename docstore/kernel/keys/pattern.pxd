from docstore.kernel.keys.folding cimport TextFolding
from docstore.kernel.keys.gathered cimport GatheredEntries
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.scan.covered cimport ABSENT_MARK, OPAQUE_MARK, mark_of
from docstore.kernel.keys.elements cimport append_directed
from docstore.bson.walk cimport (
    ARRAY, NULL, OBJECT, UNDEFINED, document_stop, find, name_end, part, value_end,
)

cdef class KeyPattern:
    cdef readonly tuple fields
    cdef readonly TextFolding fold
    cdef list _paths
    cdef list _descending
    cdef KeyWriter _out
    cdef KeyWriter _suffix
    cdef Py_ssize_t _array_at
    cdef Py_ssize_t _array_end
    cdef bint _array_is_leaf
    cdef bint _marking
    cdef bytearray _marks
    cdef Py_ssize_t _marked
    cdef bint _opaque
    cdef list _leaf_places
    cpdef bytes sort_key(self, bytes raw)
    cpdef bytes plain_key(self, bytes raw)
    cpdef object gather(self, bytes prefix, bytes raw, bytes rid, GatheredEntries into)
    cdef int _append_path(self, bytes raw, Py_ssize_t position) except -1
    cdef int _mark(self, Py_ssize_t position, int mark) except -1
    cdef _gather_array(self, bytes prefix, bytes raw, bytes rid, GatheredEntries into, Py_ssize_t varying)
    cdef int _give_marks(self, GatheredEntries into, Py_ssize_t first) except -1
    cdef bytes _taken_marks(self)
    cdef tuple _leaf_array_keys(self, bytes raw, bytes prefix, bytes suffix)
    cdef tuple _expanded_keys(self, bytes raw)
    cdef _begin_marks(self)
    cdef set _member_keys(self, bytes raw, bint descending, bytes before, bytes after)
