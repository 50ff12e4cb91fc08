from libc.math cimport exp, fabs, floor, isfinite, log, log10, pow as c_pow, rint, sqrt

from docstore.bson.number cimport double_bytes
from docstore.bson.walk cimport BOOL, DATE, DOUBLE, INT32, INT64, NULL, UNDEFINED
from docstore.kernel.compute.expressions cimport (
    Calculation, UNKNOWN, double_of, integer_of, is_binary, is_integer, put_boolean, put_integer, put_long, truth_of,
)
from docstore.kernel.group.sources cimport ValueRef, Source, put_result


cdef enum:
    _ABSOLUTE = 0
    _FLOOR = 1
    _CEILING = 2
    _ROOT = 3
    _EXPONENTIAL = 4
    _LOGARITHM = 5
    _COMMON_LOGARITHM = 6

cdef class Function(Calculation):
    cdef int _function
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
    cdef bint _absolute(self, ValueRef result) except -1

cdef class Rounded(Calculation):
    cdef bint _cut
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Power(Calculation):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class Converted(Calculation):
    cdef int _code
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class TypeName(Calculation):
    cdef dict _names
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
