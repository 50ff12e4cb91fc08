from docstore.bson.order cimport compare_bytes

cdef Py_ssize_t MIN_MERGED_PAIRS
cdef Py_ssize_t _SHORTEST_RUN

cdef class _Merging:
    cdef list _pairs
    cdef Py_ssize_t _count
    cdef Py_ssize_t _same
    cdef Py_ssize_t _longest
    cdef bint _is_decided
    cdef bytearray _triples
    cdef bytearray _spare
    cdef list _starts
    cdef bint _in_place
    cdef list sorted(self)
    cdef int _look_over(self) except -1
    cdef int _gather(self) except -1
    cdef inline bint _less(
        self, unsigned long long first_word, unsigned long long second_word, unsigned long long number, unsigned long long *triples,
        Py_ssize_t position,
    ) noexcept
    cdef bint _less_beyond(self, unsigned long long number, unsigned long long other) noexcept
    cdef int _merge_all(self) except -1
    cdef int _merge(self, Py_ssize_t left_index, Py_ssize_t right_index, Py_ssize_t end) except -1
    cdef list _in_order(self)

cdef unsigned long long *_numbers(bytearray room)
cdef int _copy(
    unsigned long long *source, Py_ssize_t at, Py_ssize_t end, unsigned long long *target, Py_ssize_t to,
) noexcept
cdef inline unsigned long long _eight_bytes(bytes key, Py_ssize_t at) noexcept
