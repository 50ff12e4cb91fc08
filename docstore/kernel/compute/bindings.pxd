from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, NULL, document_stop
from docstore.kernel.compute.arrays cimport BufferedCalculation
from docstore.kernel.compute.expressions cimport UNKNOWN, truth_of
from docstore.kernel.group.sources cimport ValueRef, Source, Variable

cdef enum:
    _PER_MEMBER = 64

cdef class Bindings(BufferedCalculation):
    cdef list _variables

cdef class Bound(Bindings):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class OfElements(Bindings):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
    cdef int _take(self, ValueRef element, ValueRef value, Py_ssize_t position) except -1

cdef class Mapped(OfElements):
    cdef int _take(self, ValueRef element, ValueRef value, Py_ssize_t position) except -1

cdef class Filtered(OfElements):
    cdef int _take(self, ValueRef element, ValueRef value, Py_ssize_t position) except -1

cdef class Reduced(Bindings):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
