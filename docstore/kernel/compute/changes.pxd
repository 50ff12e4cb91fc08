from docstore.bson.allowance cimport spend
from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, name_end, part, value_end
from docstore.kernel.compute.elements cimport Equalities
from docstore.kernel.compute.new_values cimport LARGEST_ARRAY, UNCHANGED, appended, is_element
from docstore.kernel.keys.writer cimport KeyWriter

cdef Py_ssize_t MAX_COMPARED_VALUES
cdef Py_ssize_t LARGE_ARRAY
cdef int SET
cdef int INC
cdef int MUL
cdef int MIN
cdef int MAX
cdef int NOW
cdef int PUSH
cdef int ADD_TO_SET
cdef int PULL
cdef int POP
cdef int UNSET
cdef int LEAVE
cdef int BELOW
cdef frozenset COMPARING
cdef long long ALL
cdef bytes MATCHED
cdef bytes EVERY

cdef class Change:
    cdef public bytes name
    cdef readonly int kind
    cdef readonly int code
    cdef readonly bytes operand
    cdef public list members
    cdef public long long keep
    cdef public long long position
    cdef public Equalities condition
    cdef public object below

cdef bytes array_changed(Change change, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end)
cdef bytes joined(Change change, list old)
cdef Py_ssize_t _count_of(bytes raw, Py_ssize_t begin, Py_ssize_t end) except -2
cdef Py_ssize_t _copy_members(KeyWriter out, bytes raw, Py_ssize_t at, Py_ssize_t end, Py_ssize_t position, Py_ssize_t count) except -1
cdef Py_ssize_t _place_of_member(bytes raw, Py_ssize_t at, Py_ssize_t end, Py_ssize_t count) except -1
cdef bytes _inserted(Change change, bytes raw, Py_ssize_t begin, Py_ssize_t end)
cdef bytes _popped(Change change, bytes raw, Py_ssize_t begin, Py_ssize_t end)
cdef bytes _pulled(Change change, bytes raw, Py_ssize_t begin, Py_ssize_t end)
cdef bytes _united(Change change, bytes raw, Py_ssize_t begin, Py_ssize_t end)
cdef bint _is_among(list members, tuple value) except -1
cdef bint _holds(bytes raw, Py_ssize_t begin, Py_ssize_t end, int code, bytes data) except -1
