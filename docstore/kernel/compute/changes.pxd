from docstore.bson.walk cimport ARRAY, OBJECT, part
from docstore.kernel.compute.elements cimport Equalities
from docstore.kernel.compute.new_values cimport UNCHANGED, appended

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
    cdef public long long place
    cdef public Equalities condition
    cdef public object below

cdef bytes array_changed(Change change, bytes raw, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t end)
cdef bytes joined(Change change, list old)
