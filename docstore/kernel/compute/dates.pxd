from docstore.kernel.compute.expressions cimport Calculation, put_integer
from docstore.kernel.compute.calendar cimport civil, day_and_rest, day_of_year, weekday
from docstore.kernel.group.sources cimport Place
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.walk cimport DATE, INT32, STRING, int64_at

cdef long long _date_part(int letter, long long milliseconds) except? -1

cdef class DatePart(Calculation):
    cdef int _letter
    cdef bint _calculated(self, bytes document, Place found) except -1

cdef class DateText(Calculation):
    cdef list _pieces
    cdef list _letters
    cdef KeyWriter _out
    cdef bint _calculated(self, bytes document, Place found) except -1
