from libc.math cimport ceil, exp, fabs, floor, isfinite, log, log10, pow as c_pow, rint, sqrt

from docstore.bson.number cimport double_bytes
from docstore.bson.walk cimport BOOL, DATE, DOUBLE, INT32, INT64, NULL, UNDEFINED
from docstore.kernel.compute.expressions cimport (
    Calculation, UNKNOWN, double_of, integer_of, is_binary, is_integer, put_boolean, put_integer, put_long, truth_of,
)
from docstore.kernel.group.sources cimport ValueRef, Source, put_result

cdef int _ABSOLUTE
cdef int _FLOOR
cdef int _CEILING
cdef int _ROOT
cdef int _EXPONENTIAL
cdef int _LOGARITHM
cdef int _COMMON_LOGARITHM

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
