from docstore.bson.walk cimport ARRAY, INT32, NULL, OBJECT, document_stop, name_end, part, value_end

cpdef bytes document_diff(bytes before, bytes after, object paths=*)
cdef bint _equal(bytes one, Py_ssize_t at, bytes other, Py_ssize_t begin, Py_ssize_t size) noexcept
cdef bint _twice(bytes raw, Py_ssize_t stop) except -1
cdef bytes _encoded(int code, bytes name, bytes data)
cdef bytes _inner_diff(int old_code, bytes old, bytes name, int code, bytes data, object paths)
cdef bytes _appended(bytes before, bytes after)
cdef bytes _array_diff(bytes before, bytes after, object paths)
