
from docstore.bson.walk cimport MAX_NESTING

cdef class KeyWriter:
    cdef Py_ssize_t size
    cdef int _depth
    cdef Py_ssize_t _room
    cdef bytearray _buffer
    cdef int clear(self) except -1
    cdef int enter(self) except -1
    cdef int leave(self) except -1
    cdef int put(self, int byte) except -1
    cdef int put_part(self, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int put_bytes(self, bytes raw) except -1
    cdef int put_number(self, unsigned long long number, int width) except -1
    cdef int put_digits(self, Py_ssize_t number) except -1
    cdef int put_little(self, unsigned long long number, int width) except -1
    cdef int set_little(self, Py_ssize_t at, unsigned long long number, int width) except -1
    cdef Py_ssize_t begin_document(self) except -1
    cdef int end_document(self, Py_ssize_t at) except -1
    cdef int put_member(self, int code, Py_ssize_t position) except -1
    cdef int invert(self, Py_ssize_t at) except -1
    cdef bytes contents(self)
    cdef int _grow(self, Py_ssize_t needed) except -1
    cdef Py_ssize_t _reserve(self, int width) except -1

cdef Py_ssize_t MAX_SPARE_BUFFER_BYTES
cdef list _spare

cdef KeyWriter writer()
cdef bytes take_contents(KeyWriter out)
cdef int give_back(KeyWriter out) except -1
