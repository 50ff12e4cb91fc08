from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, name_end, part, value_end
