from docstore.bson.walk cimport ARRAY, NULL, OBJECT, UNDEFINED
