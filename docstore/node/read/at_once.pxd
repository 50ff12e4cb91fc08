from docstore.collection.collection cimport Collection
from docstore.collection.read.prepared cimport BoundScan
from docstore.commands.arguments cimport Arguments
from docstore.commands.context cimport Context
from docstore.node.node cimport DataNode
from docstore.node.read.snapshot cimport StepState

cpdef object is_apart(Context context)
cpdef tuple collation_of(Collection collection, bytes raw)
cpdef object find_at_once(Context context, DataNode node, Arguments arguments, Collection collection)
cpdef object _find_at_once(Context context, DataNode node, Arguments arguments, Collection collection)
