from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, STRING, document_stop, name_end, part, value_end
from docstore.kernel.match.path_predicates cimport is_name

cdef Py_ssize_t _REMEMBERED
cdef Py_ssize_t _LONG
cdef Py_ssize_t _PER_WORD
cdef int _ASCII

cdef class Words:
    cdef bytes _between
    cdef object _split
    cdef object _learn
    cdef dict _cache
    cdef list keys(self, bytes raw, Py_ssize_t at, Py_ssize_t end)
    cdef list _of_others(self, bytes text)
    cdef _add(self, bytes word, list[bytes] keys)

cdef class PlainTexts:
    cdef Words _words
    cdef list _names
    cdef list _weights
    cdef bytes _override
    cdef list _texts(self, bytes raw)

cdef class Scores:
    cdef PlainTexts _texts
    cdef list _term_keys
    cpdef list score_terms(self, bytes raw)

