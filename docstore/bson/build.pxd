from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, find, name_end, part, value_end

cdef list _members

cdef class DocumentParts:
    cdef public list pieces
    cdef public Py_ssize_t size
    cpdef bytes document(self, bytes tail=*)
