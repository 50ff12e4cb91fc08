from docstore.collection.collection cimport Collection
from docstore.commands.context cimport Context

cdef class View:
    cdef public object reader
    cdef public object release
    cdef public object owned
    cdef public bint newest

cdef class StepState:
    cdef public object reader
    cdef public object owned
    cdef object _lease

cpdef StepState state_at_once(Context context, Collection collection)
