from docstore.bson.walk cimport (
    ARRAY, DOUBLE, INT32, INT64, OBJECT, REGEX, document_stop, name_end, part, value_end,
)
from docstore.kernel.compute.field_updates cimport (
    ADD_TO_SET, ALL, BELOW, FieldChanges, INC, LEAVE, MATCHED, MAX, MIN, PULL, PUSH, SET, UNSET,
)

cdef Py_ssize_t _MOST
cdef int _DEEPEST
cdef Py_ssize_t _POSITION_DIGITS

cpdef FieldChanges field_changes(bytes specification)
cdef bint _is_plain(bytes path) except -1
