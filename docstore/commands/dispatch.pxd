from docstore.commands.arguments cimport Arguments
from docstore.commands.client_connection cimport ClientConnection
from docstore.commands.context cimport Context, RequestProgress
from docstore.commands.metrics cimport Metrics

cdef class Pending:
    cdef Dispatcher _dispatcher
    cdef object _request
    cdef Arguments _arguments
    cdef object _awaitable
    cdef public Context context
    cdef public object operation
    cdef public object convert
    cdef public object deadline

cdef class LongRequest(Pending):
    pass

cdef class Dispatcher:
    cdef object __weakref__
    cdef public object services
    cdef object _translate
    cdef object _gossip
    cdef bytes _tail
    cdef bytes _last_cluster_time

    cpdef object _run(self, Context context, Arguments arguments)
    cpdef object _answer(self, Context context, Arguments arguments)
    cpdef object _execute(self, Context context, Arguments arguments)
    cpdef bytes complete(self, Context context, object result)
    cpdef bytes _reply_tail(self)
