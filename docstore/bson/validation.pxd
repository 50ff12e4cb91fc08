from docstore.bson.walk cimport ARRAY, BINARY, BOOL, CODE, CODE_WITH_SCOPE, DATE, DB_POINTER, DOUBLE, INT32, INT64, OBJECT, REGEX, STRING, SYMBOL
from docstore.bson.walk cimport TIMESTAMP, UNDEFINED, document_stop, int32_at, name_end, part, uint64_at, value_end

cdef int _check_text(bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _check_utf8(bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
cdef int _check_document(bytes raw, Py_ssize_t start, Py_ssize_t limit, int depth) except -1
cdef int _check_value(bytes raw, int code, Py_ssize_t at, Py_ssize_t end, int depth) except -1
