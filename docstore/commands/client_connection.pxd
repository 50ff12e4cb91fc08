cdef class RequestCache:
    pass

cdef class ClientConnection:
    cdef object __weakref__
    cdef public str application_name
    cdef public tuple compressors
    cdef public object conversation
    cdef public set cursors
    cdef public bint greeted
    cdef public bint greets_as_process
    cdef public object hang_up
    cdef public object id
    cdef public object identity
    cdef public object last_write
    cdef public str local
    cdef public bytes metadata
    cdef public RequestCache opened
    cdef public str remote
    cdef public bytes session_owner
    cdef public object subject
    cdef public dict upstream
