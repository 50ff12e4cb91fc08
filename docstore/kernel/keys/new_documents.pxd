from docstore.bson.walk cimport find, value_end
from docstore.kernel.keys.encoding cimport append_key
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.scan.covered cimport mark_of

cdef int _ID_BYTES
