from docstore.commands.arguments cimport Arguments
from docstore.commands.client_connection cimport ClientConnection, RequestCache
from docstore.commands.context cimport Context

cdef class RequestTemplate:
    cdef Context _context
    cdef list _documents
    cdef dict _fields
    cdef list _readers
    cdef list _taken_as_given
    cdef object _timed
    cdef object _value
    cdef public bytes body

cdef class RequestTemplates(RequestCache):
    cdef dict _by_kind

    cpdef tuple bind(self, object request, double started)

cpdef RequestTemplates templates_of(ClientConnection connection)
