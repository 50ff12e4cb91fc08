from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, name_end, part, value_end

cdef list _members
cdef bint _is_one_of(bytes raw, Py_ssize_t at, Py_ssize_t end, list[bytes] names) noexcept
