from docstore.bson.key_writer cimport KeyWriter
from docstore.bson.keys cimport append_key
from docstore.bson.walk cimport ARRAY, NULL, OBJECT, UNDEFINED, find, value_end

cdef class KeyPattern:
    cdef readonly tuple fields
    cdef list _paths
    cdef list _descending
    cdef KeyWriter _out
    cdef bytes plain_key(self, bytes raw)
cdef int _append_directed(KeyWriter out, int code, bytes raw, Py_ssize_t at, Py_ssize_t end, bint descending) except -1
cdef int _append_path(KeyWriter out, bytes raw, list[bytes] names, bint descending) except -1
