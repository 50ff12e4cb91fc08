from docstore.kernel.compute.expressions cimport Calculation, put_integer, put_long
from docstore.kernel.compute.calendar cimport civil, day_and_rest, day_of, day_of_year, floored, iso_week, weekday
from docstore.kernel.group.sources cimport ValueRef
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.bson.walk cimport DATE, INT32, INT64, STRING, int32_at, int64_at

cdef long long _date_part(int letter, long long milliseconds) except? -1

cdef class OfDate(Calculation):
    cdef object _local
    cdef long long _local_time(self) except? -1

cdef class DatePart(OfDate):
    cdef int _letter
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class DateText(OfDate):
    cdef list _pieces
    cdef list _letters
    cdef KeyWriter _out
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef bint _is_far(long long milliseconds) noexcept
cdef long long _month_of(long long milliseconds) except? -1

cdef class OfUnit(Calculation):
    cdef long long _months
    cdef long long _length
    cdef long long _begin

cdef class DateBin(OfUnit):
    cdef object _clocks
    cdef dict _begins
    cdef long long _instant(self, long long local_time) except? -1
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class DateDistance(OfUnit):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1

cdef class DateSum(OfUnit):
    cdef bint _calculated(self, bytes document, ValueRef result) except -1
