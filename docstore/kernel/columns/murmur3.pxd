from docstore.bson.walk cimport uint64_at

cdef unsigned long long _MASK
cdef unsigned long long _SIGN
cdef unsigned long long _NEGATIVE
cdef unsigned long long _C1
cdef unsigned long long _C2
cdef unsigned long long _F1
cdef unsigned long long _F2
cdef object _OFFSET

cpdef bytes murmur3_place(bytes key)
cdef unsigned long long _hash(bytes key) noexcept
cdef unsigned long long _tail(bytes key, Py_ssize_t at, Py_ssize_t end) noexcept
cdef unsigned long long _mixed(
    unsigned long long k, unsigned long long first, int turn, unsigned long long second,
) noexcept
cdef unsigned long long _rotated(unsigned long long x, int by) noexcept
cdef unsigned long long _finished(unsigned long long h) noexcept
