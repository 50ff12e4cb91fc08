cdef unsigned long long _HALF
cdef unsigned long long _SIXTEENS
cdef unsigned long long _EIGHTS
cdef unsigned long long _FOURS
cdef unsigned long long _TWOS
cdef unsigned long long _ONES

cpdef unsigned long long interleaved(unsigned long long x, unsigned long long y)
cdef unsigned long long spread(unsigned long long number) noexcept
cdef unsigned long long gathered(unsigned long long number) noexcept
cdef unsigned long long number_at(bytes raw, Py_ssize_t at) noexcept
cdef put_number(bytearray buffer, Py_ssize_t at, unsigned long long number)
cdef bytes start_of(bytearray buffer, Py_ssize_t size)
cdef bytes cut_behind(bytearray buffer, Py_ssize_t size)
cdef merged(object ranges)
