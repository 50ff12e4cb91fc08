from docstore.bson.number cimport double_bytes, integer_bytes
from docstore.bson.walk cimport ARRAY, DECIMAL, DOUBLE, INT32, INT64, NULL, double_at, int32_at, int64_at, same_bytes
from docstore.kernel.group.accumulators cimport State
from docstore.kernel.group.double_sum cimport DoubleSum
from docstore.kernel.group.sources cimport ValueRef, Source
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.pattern cimport KeyPattern
from docstore.kernel.keys.writer cimport KeyWriter

cdef Py_ssize_t _STEPS
cdef Py_ssize_t _PER_VALUE

cdef class WindowKeys:
    cdef Source _partition
    cdef KeyPattern _pattern
    cdef object _key_of
    cdef object _check
    cdef ValueRef _value
    cdef KeyWriter _out
    cdef int _append_partition(self, ValueRef value) except -1

cdef class Placed:
    cdef object _piece_of
    cdef Py_ssize_t _start
    cdef list _piece
    cdef tuple _pair(self, Py_ssize_t position)
    cpdef bytes document(self, Py_ssize_t position)
    cpdef bytes key(self, Py_ssize_t position)

cdef class Growing:
    cdef Placed _documents
    cdef Source _source
    cdef State _state
    cdef object _resume
    cdef object _resumed
    cdef Py_ssize_t _length
    cdef bint _is_unbounded
    cdef Py_ssize_t _upper
    cdef Py_ssize_t _reached
    cdef tuple _last_value
    cdef ValueRef _value
    cdef int _add(self, bytes document) except -1

cdef class MovingSum:
    cdef Placed _documents
    cdef Source _source
    cdef bint _mean
    cdef object _resume
    cdef object _resumed
    cdef object _too_much
    cdef Py_ssize_t _most_bytes
    cdef Py_ssize_t _memory
    cdef Py_ssize_t _length
    cdef Py_ssize_t _lower
    cdef Py_ssize_t _upper
    cdef bint _open
    cdef Py_ssize_t _first
    cdef Py_ssize_t _reached
    cdef Py_ssize_t _ints
    cdef Py_ssize_t _longs
    cdef Py_ssize_t _doubles
    cdef long long _integer_sum
    cdef DoubleSum _sum
    cdef ValueRef _value
    cdef int _come(self, bytes document) except -1
    cdef int _leave(self, bytes document) except -1
    cdef Py_ssize_t _bytes(self) except -1
    cdef bint _add(self, int sign) except -1
    cdef bint _is_empty(self) noexcept
    cdef int _begin_again(self) except -1
    cdef int _go_on_elsewhere(self) except -1
    cdef tuple _result(self)
