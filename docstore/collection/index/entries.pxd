from docstore.collection.collection cimport Collection, Index

cdef class Entries:
    cdef dict _claims
    cdef bint _enforce
    cdef object _engine
    cdef object _look
    cdef dict _pending
