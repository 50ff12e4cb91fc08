from docstore.bson.walk cimport ARRAY, OBJECT, STRING, part
from docstore.kernel.keys.writer cimport KeyWriter

cdef enum:
    _COMMON = 0x05
    _SECOND_RUN = 0x21
    _SECOND_MIDDLE = 0x25
    _THIRD_RUN = 0x61
    _THIRD_MIDDLE = 0x65
    _THIRD_HIGH = 0xC5

cdef class TextFolding:
    cdef object _string_key
    cdef int _strength
    cdef bytes _first
    cdef bytes _first_rest
    cdef bytes _third
    cdef dict _cache
    cdef KeyWriter _out
    cdef bytes folded(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end)
    cdef bytes _remembered(self, bytes data)
    cdef bint _write(self, bytes raw, Py_ssize_t begin, Py_ssize_t end) except -1
    cdef int _write_common(self, Py_ssize_t count, int run, int middle) except -1
    cdef int _write_third(self, bytes raw, Py_ssize_t begin, Py_ssize_t end) except -1
