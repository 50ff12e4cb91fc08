from docstore.kernel.group.sources cimport ValueRef, Source, put_result
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.number cimport double_bytes, integer_bytes
from docstore.bson.order cimport compare_at
from docstore.bson.walk cimport (
    ARRAY, BOOL, DATE, DECIMAL, DOUBLE, INT32, INT64, MIN_KEY, NULL, STRING, UNDEFINED, document_stop, double_at, int32_at,
    int64_at, name_end, value_end,
)

cdef enum:
    UNKNOWN = -2

cdef bint is_integer(ValueRef value) noexcept
cdef bint is_binary(ValueRef value) noexcept
cdef long long integer_of(ValueRef value) noexcept
cdef double double_of(ValueRef value) noexcept
cdef int put_integer(ValueRef result, int code, long long number) except -1
cdef int put_long(ValueRef result, int code, long long number) except -1
cdef int put_boolean(ValueRef result, bint truth) except -1
cdef int truth_of(ValueRef value) noexcept
cdef bint is_small(long long number) noexcept
cdef int _above_missing(ValueRef value) noexcept
cdef long long member_of(ValueRef array, long long index, ValueRef result) except -1

cdef class Calculation(Source):
    cdef list _operands
    cdef object _otherwise
    cdef ValueRef _first
    cdef ValueRef _second
    cdef int locate(self, bytes document, ValueRef member, ValueRef result) except -1
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
    cdef int _locate(self, Py_ssize_t position, bytes document, ValueRef result) except -1
    cdef bint _two_numbers(self, bytes document) except -1
    cdef bint _two_from_behind(self, bytes document) except -1

cdef class Sum(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
    cdef bint _of_doubles(self, bytes document, ValueRef result) except -1

cdef class Difference(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Product(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Quotient(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Remainder(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Comparison(Calculation):
    cdef list _answers
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Connective(Calculation):
    cdef int _stop
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Negation(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Choice(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class FirstPresent(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Concatenation(Calculation):
    cdef KeyWriter _out
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Size(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Member(Calculation):
    cdef long long _index
    cdef bint _has_index
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Membership(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
