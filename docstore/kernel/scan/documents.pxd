from docstore.kernel.match.predicate cimport Predicate
