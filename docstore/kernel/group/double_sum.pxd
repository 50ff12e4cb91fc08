cdef class DoubleSum:
    cdef double high
    cdef double low
    cdef void plus(self, double number) noexcept
    cdef void plus_long(self, long long number) noexcept
    cdef bint overflows(self, double number) noexcept
