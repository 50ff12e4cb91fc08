from docstore.kernel.match.predicate cimport Predicate
from docstore.kernel.scan.covered cimport Covering
from docstore.kernel.scan.fetch cimport Examined

cdef Py_ssize_t _ID_BYTES
cdef int MAX_SKIPPED_ENTRIES

cdef class Sifted:
    cdef object _items
    cdef Covering _covering
    cdef Predicate _predicate
    cdef bint _is_id
    cdef Examined _examined
    cdef int _left_out
