from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport (
    ARRAY, DATE, INT32, INT64, OBJECT, document_stop, name_end, part, same_bytes, value_end,
)
from docstore.kernel.compute.changes cimport (
    ADD_TO_SET, ALL, BELOW, COMPARING, Change, EVERY, INC, LARGE_ARRAY, LEAVE, MATCHED, MAX, MIN, MUL, NOW, POP, PULL, PUSH, UNSET,
    array_changed, joined,
)
from docstore.kernel.compute.new_values cimport LARGEST_ARRAY, UNCHANGED, calculated, encoded, is_element

cdef Py_ssize_t _NOWHERE
cdef long long _NO_TIME
cdef _Occasion _ANY

cdef class _Occasion:
    cdef Py_ssize_t position
    cdef bytes now
    cdef bint inserting

cdef class FieldChanges:
    cdef readonly frozenset names
    cdef public frozenset names_in_place
    cdef public frozenset arrays
    cdef readonly bint compares
    cdef readonly bint positional
    cdef readonly dict paths
    cdef list _changes
    cdef int _count
    cdef bint _chooses
    cpdef bytes apply(self, bytes raw, Py_ssize_t position=*, long long now=*)
    cpdef bytes insert(self, bytes seed, long long now=*)
    cdef int _look_below(self) except -1
    cdef bytes _document(self, bytes raw, Py_ssize_t start, Py_ssize_t limit, _Occasion occasion)
    cdef bytes _elements(self, bytes raw, Py_ssize_t start, Py_ssize_t limit, _Occasion occasion)
    cdef Py_ssize_t _chosen(
        self, bytes raw, int code, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t number, _Occasion occasion
    ) except -9
    cdef bytes _new_document(self, _Occasion occasion)
    cdef int _change_index(self, bytes raw, Py_ssize_t at, Py_ssize_t end) except -9

cdef bytes _field(Change change, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end, _Occasion occasion)
cdef bytes _new(Change change, _Occasion occasion)
cdef bytes _changed(Change change, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end, _Occasion occasion)
