from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport (
    ARRAY, OBJECT, document_stop, name_end, part, value_end,
)
from docstore.kernel.compute.new_values cimport UNCHANGED, appended, encoded, increased, is_element

cdef int SET
cdef int INC
cdef int UNSET
cdef int PUSH
cdef int ADD_TO_SET
cdef int PULL
cdef int LEAVE
cdef int MIN
cdef int MAX
cdef int BELOW
cdef long long ALL
cdef Py_ssize_t _LARGE_ARRAY
cdef Py_ssize_t _NOWHERE
cdef Py_ssize_t _INSERTING
cdef bytes MATCHED

cdef class FieldChanges:
    cdef readonly frozenset names
    cdef public frozenset names_in_place
    cdef public frozenset arrays
    cdef readonly bint compares
    cdef readonly bint positional
    cdef readonly dict paths
    cdef list _names
    cdef list _kinds
    cdef list _codes
    cdef list _values
    cdef list _members
    cdef list _keeps
    cdef list _below
    cdef int _count
    cdef bint _matched
    cpdef bytes apply(self, bytes raw, Py_ssize_t position=*)
    cpdef bytes insert(self, bytes seed)
    cdef int _look_below(self) except -1
    cdef bytes _document(self, bytes raw, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t position)
    cdef bytes _elements(self, bytes raw, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t position)
    cdef bytes _field(self, int place, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t position)
    cdef bytes _new(self, int place, Py_ssize_t position)
    cdef bytes _made(self, Py_ssize_t position)
    cdef int _kind(self, Py_ssize_t place, Py_ssize_t position) except -1
    cdef int _place(self, bytes raw, Py_ssize_t at, Py_ssize_t end)
    cdef bytes _changed(
        self, int place, int change, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end
    )
    cdef bytes _array(self, int place, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end)
    cdef list _joined(self, int place, list old)
