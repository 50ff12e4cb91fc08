"""What BSON is: raw documents and values, and the order among them.

Modules, lowest first: `walk` (fields and values in raw bytes), `build` (putting raw bytes together), `convert` (to and
from Python), `validation`, `number` and `order` (the total order). What is done to documents with them is in
`docstore.kernel`; `compilation` says in which form both run.
"""

from docstore.bson.compilation import prefer_sources_where_asked

prefer_sources_where_asked(*__path__)

from docstore.bson.build import (
    append_fields,
    array_documents,
    array_from,
    array_value,
    consecutive_documents,
    document_from,
    documents_array,
    documents_array_parts,
    enclosed,
    encoded_fields,
    members_of_array,
    with_documents,
)
from docstore.bson.convert import document_to_python, from_python, to_python
from docstore.bson.order import compare, compare_documents, type_class
from docstore.bson.validation import is_storable, validate
from docstore.bson.walk import (
    ARRAY,
    BINARY,
    BOOL,
    CODE,
    CODE_WITH_SCOPE,
    DATE,
    DB_POINTER,
    DECIMAL,
    DOUBLE,
    EMPTY_DOCUMENT,
    INT32,
    INT64,
    MAX_KEY,
    MIN_KEY,
    NULL,
    OBJECT,
    OBJECT_ID,
    REGEX,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UNDEFINED,
    Value,
    changed_fields,
    elements,
    get_field,
    get_path,
    values,
)

__all__ = [
    "ARRAY",
    "BINARY",
    "BOOL",
    "CODE",
    "CODE_WITH_SCOPE",
    "DATE",
    "DB_POINTER",
    "DECIMAL",
    "DOUBLE",
    "EMPTY_DOCUMENT",
    "INT32",
    "INT64",
    "MAX_KEY",
    "MIN_KEY",
    "NULL",
    "OBJECT",
    "OBJECT_ID",
    "REGEX",
    "STRING",
    "SYMBOL",
    "TIMESTAMP",
    "UNDEFINED",
    "Value",
    "append_fields",
    "array_documents",
    "array_from",
    "array_value",
    "changed_fields",
    "compare",
    "compare_documents",
    "consecutive_documents",
    "document_from",
    "document_to_python",
    "documents_array",
    "documents_array_parts",
    "elements",
    "enclosed",
    "encoded_fields",
    "from_python",
    "get_field",
    "get_path",
    "is_storable",
    "members_of_array",
    "to_python",
    "type_class",
    "validate",
    "values",
    "with_documents",
]
