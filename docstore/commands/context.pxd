from docstore.commands.client_connection cimport ClientConnection

cdef class Context:
    cdef public object command
    cdef public ClientConnection connection
    cdef public object services
    cdef public object started
    cdef public bytes raw
    cdef public object sequences
    cdef public bint exhaust
    cdef public str db
    cdef public str namespace
    cdef public str view
    cdef public object session
    cdef public object read_concern
    cdef public object write_concern
    cdef public object read_preference
    cdef public bint explicit_read_concern
    cdef public bint explicit_write_concern
    cdef public object deadline
    cdef public object max_time_ms
    cdef public object comment
    cdef public bytes cluster_time
    cdef public bytes shard_version
    cdef public str api_version
    cdef public bint api_strict
    cdef public bint help_asked
    cdef public RequestProgress begun_progress
    cdef public object admitted
    cdef dict _body

    cpdef Context copy(self)

cdef class RequestProgress:
    cdef public object operation
    cdef public str namespace
    cdef public object deadline
    cdef public object at_cluster_time
    cdef public object statement_time
    cdef public object induced
    cdef public object execution
    cdef public bint whole_ok
    cdef public bint apart
    cdef public bint irrevocable
    cdef public object writing
    cdef public object memory_before
    cdef public object unmeasured
