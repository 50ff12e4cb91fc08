from docstore.bson.walk cimport (
    ARRAY, BOOL, DOUBLE, INT32, INT64, OBJECT, REGEX, document_stop, double_at, int32_at, int64_at, name_end, part,
    value_end,
)
from docstore.kernel.compute.changes cimport (
    ADD_TO_SET, BELOW, EVERY, INC, LEAVE, MATCHED, MAX, MIN, MUL, NOW, POP, PULL, PUSH, SET, UNSET,
)
from docstore.kernel.compute.field_updates cimport FieldChanges

cdef Py_ssize_t MAX_UPDATED_FIELDS
cdef int _DEEPEST
cdef Py_ssize_t _POSITION_DIGITS

cpdef FieldChanges field_changes(bytes specification, object array_filters=*)
cdef bint _is_plain(bytes path) except -1
