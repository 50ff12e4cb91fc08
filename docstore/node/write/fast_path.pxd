from docstore.collection.collection cimport Collection
from docstore.collection.unit_of_work cimport WriteUnitOfWork
from docstore.commands.arguments cimport Arguments
from docstore.commands.context cimport Context
from docstore.node.node cimport DataNode
from docstore.node.write.modification cimport Modification

cdef class _WriteTarget:
    cdef public DataNode node
    cdef public Collection collection
    cdef public object owned
    cdef public object session
    cdef public object stmt_id
    cdef public object concern
    cdef public object validator

cpdef _WriteTarget _write_target(Context context, DataNode node, Arguments arguments, bint bypass)
