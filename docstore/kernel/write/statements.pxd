from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, BOOL, NULL, OBJECT, REGEX, UNDEFINED, document_stop, name_end, part, value_end

cdef tuple _REST

cdef tuple _update_fields(bytes raw)
cdef bint is_named(bytes raw, Py_ssize_t at, Py_ssize_t named, bytes name) noexcept
cpdef int identity_type(bytes raw) except -1
