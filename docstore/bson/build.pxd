from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, name_end, value_end
