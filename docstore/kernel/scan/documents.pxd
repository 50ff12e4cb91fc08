from docstore.bson.allowance cimport looks
from docstore.kernel.match.predicate cimport Predicate
