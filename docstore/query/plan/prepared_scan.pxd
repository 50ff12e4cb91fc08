from docstore.kernel.keys.bounds cimport ScanBounds

cdef class PreparedScan:
    cdef public object index
    cdef public ScanBounds bounds
    cdef public bint reverse
    cdef public object residual
    cdef public object order
    cdef public object patience
    cdef public bint gathers
    cdef public bint of_one_key
    cdef public object beginning
    cdef public bint descends
    cdef public bint looks_through

    cpdef tuple bound(self, list values)
    cpdef list parts(self, list values)

cdef class PreparedUnion:
    cdef public tuple branches
    cdef public bint as_one
    cdef public object residual
    cdef public object order
    cdef public object patience

    cpdef tuple bound(self, list values)
    cpdef list parts(self, list values)

cdef class PreparedCollection:
    cdef public object residual
    cdef public object order

    cpdef tuple bound(self, list values)
