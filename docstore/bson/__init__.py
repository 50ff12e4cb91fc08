"""The kernel: everything that is done to a document without decoding it.

Modules, lowest first: `walk` (fields and values in raw bytes), `build` (putting raw bytes together), `convert` (to
and from Python), `validation`, `number` and `order` (the total order), `keys` (the same order as bytes),
`key_pattern` (keys of a document), `predicate` and `leaves` (compiled predicates), `scan` (the loops over stored
documents), `columns` and `mutations` (rows of the wide-column mode, whose tokens are in `murmur`), `hashing` (the hash
of hashed indexes), `layout` (every key prefix on disk). `optime` and `namespace` are
values that all parts share.

The modules are pure-Python-mode Cython: compiled where there was a C compiler, interpreted otherwise, with the same
results. DOCSTORE_KERNEL=interpreted in the environment has the `.py` files run in any case.
"""

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

if os.environ.get("DOCSTORE_KERNEL") == "interpreted":
    # Submodules are found through this cache; a finder that knows of source files only passes by the extensions.
    sys.path_importer_cache[__path__[0]] = FileFinder(__path__[0], (SourceFileLoader, SOURCE_SUFFIXES))

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
from docstore.bson.hashing import hashed_key
from docstore.bson.key_pattern import KeyPattern
from docstore.bson.keys import encode_key, identity_key
from docstore.bson.leaves import All, Call, Compare, ElemMatch, Exists, In, Mod, Ranges, Regex, Size, Type
from docstore.bson.order import compare, compare_documents, type_class
from docstore.bson.predicate import Always, And, Nor, Not, Or, Predicate
from docstore.bson.scan import EXHAUSTED, FULL, TIME_IS_UP, count_scan, scan, scan_pairs
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
from docstore.bson.watched import Watched

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
    "EXHAUSTED",
    "FULL",
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
    "TIME_IS_UP",
    "UNDEFINED",
    "All",
    "Always",
    "And",
    "Call",
    "Compare",
    "ElemMatch",
    "Exists",
    "In",
    "KeyPattern",
    "Mod",
    "Nor",
    "Not",
    "Or",
    "Predicate",
    "Ranges",
    "Regex",
    "Size",
    "Type",
    "Value",
    "Watched",
    "append_fields",
    "array_documents",
    "array_from",
    "array_value",
    "changed_fields",
    "compare",
    "compare_documents",
    "consecutive_documents",
    "count_scan",
    "document_from",
    "document_to_python",
    "documents_array",
    "documents_array_parts",
    "elements",
    "enclosed",
    "encode_key",
    "encoded_fields",
    "from_python",
    "get_field",
    "get_path",
    "hashed_key",
    "identity_key",
    "is_storable",
    "members_of_array",
    "scan",
    "scan_pairs",
    "to_python",
    "type_class",
    "validate",
    "values",
    "with_documents",
]
