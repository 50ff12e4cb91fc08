from docstore.bson.predicate cimport Predicate
