from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, find, name_end, part, value_end

cdef list _members
