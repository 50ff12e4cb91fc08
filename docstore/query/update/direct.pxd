from docstore.kernel.compute.field_updates cimport FieldChanges

cdef class DirectUpdate:
    cdef bytes _specification
    cdef tuple _array_filters
    cdef FieldChanges _changes
    cdef object _general
    cdef public frozenset changed
    cdef public bint compares
    cdef public bint needs_position

    cpdef bytes change(self, bytes raw, object now, object position=*)
    cpdef bytes seeded(self, bytes seed, tuple new_id, object now=*)
