cdef Py_ssize_t _OVERHEAD
cdef Py_ssize_t MIN_CACHED_VALUES

cdef class KeptValues:
    cdef object _read
    cdef Py_ssize_t _most
    cdef Py_ssize_t _largest
    cdef dict _slots
    cdef list _keys
    cdef list _values
    cdef bytearray _reference_bits
    cdef list _free
    cdef Py_ssize_t _hand
    cdef Py_ssize_t _bytes

    cpdef bytes get(self, bytes key)
    cdef int _keep(self, bytes key, bytes value) except -1
    cdef int _make_way(self) except -1
    cdef int _drop(self, bytes key, Py_ssize_t slot) except -1

cdef class CurrentValues:
    cdef object _snapshot
    cdef object _newest
    cdef object _get_cached

    cpdef bytes get(self, bytes key)
