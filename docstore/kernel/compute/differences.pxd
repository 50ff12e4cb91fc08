from docstore.bson.walk cimport ARRAY, INT32, NULL, OBJECT, document_stop, name_end, part, same_bytes, same_front, uint64_at, value_end
from docstore.kernel.compute.new_values cimport is_element

cpdef bytes document_diff(bytes before, bytes after, object paths=*)
cdef Py_ssize_t _count(bytes raw, Py_ssize_t stop) except -1
cdef bint _twice(bytes raw, Py_ssize_t stop, Py_ssize_t count) except -1
cdef bint _name_twice(bytes raw, Py_ssize_t stop) except -1
cdef unsigned long long _mark_of(bytes raw, Py_ssize_t at, Py_ssize_t end) noexcept
cdef bytes _encoded(int code, bytes name, bytes data)
cdef bytes _inner_diff(int old_code, bytes old, bytes name, int code, bytes data, object paths)
cdef bytes _appended(bytes before, bytes after)
cdef bytes _array_diff(bytes before, bytes after, object paths)
