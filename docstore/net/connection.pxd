from docstore.commands.client_connection cimport ClientConnection
from docstore.commands.dispatch cimport Dispatcher
from docstore.net.turn cimport Traffic, Turn

cdef class Connection:
    cdef object __weakref__
    cdef object _buffer
    cdef bint _busy
    cdef object _clock
    cdef bint _closed
    cdef public Dispatcher _dispatcher
    cdef object _last_id
    cdef object _listener
    cdef object _loop
    cdef object _pending
    cdef bint _reading_paused
    cdef bint _scheduled
    cdef Traffic _traffic
    cdef Turn _turn
    cdef object _writable
    cdef public ClientConnection peer
    cdef public object transport

    cdef object _schedule(self)
    cdef object _regulate(self)
    cpdef object _handle(self, bytes frame)
    cdef object _serve(self, object message)
    cdef tuple _frame(self, object message, object outcome)
    cpdef object _write(self, bytes frame, bytes tail=*)
    cpdef object _refuse(self, object violation)
