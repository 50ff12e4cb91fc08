from docstore.bson.build cimport DocumentParts
from docstore.commands.context cimport Context
from docstore.node.node cimport DataNode

cdef class Filling:
    cdef public object source
    cdef public object count
    cdef public bint exhausted
    cdef public object cursor_id
    cdef public bytes fields
    cdef public object _docs_left
    cdef public object _bytes_left
    cdef public object _max_bytes
    cdef public DataNode _node
    cdef public list _joined
    cdef public list _documents

cpdef DocumentParts whole_reply(Context context, list documents, object catalog=*)
cdef DocumentParts _reply(
    tuple array, object cursor_id, str namespace, bint first, bint catalog, object at, bytes behind
)
