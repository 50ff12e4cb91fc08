cdef class Arguments:
    cdef object _declared
    cdef public object value
    cdef public dict values
