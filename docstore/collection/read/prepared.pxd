from docstore.collection.collection cimport Collection, Index

cdef class BoundScan:
    cdef public Collection coll
    cdef public tuple key
    cdef public object scan
    cdef public object parts
    cdef public object predicate
    cdef public object near
    cdef public object reach
    cdef Index _index
    cdef object _ranges
    cdef bint _once

    cdef bint _fetch(
        self, object reader, object limit, object owned, list documents, list visited, object skip=*
    ) except -1
    cdef object _entries(self, object reader, bint is_short)
    cpdef list documents(
        self, object reader, object limit, object owned, list visited=*, object skip=*, object needs=*
    )
    cpdef tuple first(self, object reader, object owned)
    cpdef object used(self)
