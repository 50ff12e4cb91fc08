from docstore.collection.collection cimport Collection
from docstore.commands.arguments cimport Arguments
from docstore.commands.context cimport Context
from docstore.node.node cimport DataNode
from docstore.node.read.snapshot cimport StepState

cdef tuple _identity(Arguments arguments)
cdef list _by_id(Collection collection, tuple identity, StepState state)
