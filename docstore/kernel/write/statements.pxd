from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport (
    ARRAY, BOOL, INT32, NULL, OBJECT, REGEX, UNDEFINED, document_stop, int32_at, name_end, part, value_end,
)

cdef tuple _REST
cdef bytes _UPDATE
cdef list _FLAGS
cdef bytes _ALL
cdef bytes _ONE

cdef tuple _update_fields(bytes raw)
cdef bint is_named(bytes raw, Py_ssize_t at, Py_ssize_t named, bytes name) noexcept
cpdef int identity_type(bytes raw) except -1
cpdef tuple bulk_operation(bytes raw)
cdef tuple _bulk_change(bytes raw, Py_ssize_t stop)
cdef bytes _statement(list[bytes] parts)
