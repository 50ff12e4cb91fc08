"""Generation of `.pxd` files: the C declarations of a compiled module, from the syntax tree of its source.

Cython takes the C types of a `.py` file from a `.pxd` file of the same name, and so does every module that calls it in
C. `Library.write` puts both files of each module into a folder of the build. What counts in a source:

- **Types** are the annotations: the types of `cython`; `bool`, which is `cython.bint`; `bytes`, `str`, `list`, `dict`,
  `set`, `frozenset`, `tuple`, `bytearray` and the classes of compiled modules, also with `| None`; and names for all
  these. Everything else is a Python object, also an `int`, which may be of any size.
- **Classes** are extension types, except `dataclass(slots=True)`, those with a base that is none, and those with a
  value at an annotation (a default that all instances share). Their attributes are those annotated in the class, else
  those that methods assign, of the type of the annotation, parameter, literal or class assigned. Python sees all of
  them but the private ones of the kernel. There are weak references to those that have `__weakref__` among their slots
  or attributes.
- **Functions** are C functions, methods too, if a type of `cython` stands in their signature, or if they say
  `@cython.cfunc`; with `@cython.ccall` Python may call them as well. Generators, closures, and functions with starred
  or keyword parameters or other decorators can only be Python's. `@cython.exceptval` is as Cython has it: `(-2)` is the
  result that means an error, `(-2, check=True)` may mean one, `(check=False)` raises none. Without it -1 may mean one.
  A method is like the one that it overrides.
- **Variables** of a module that are annotated with a type of C, or with `object`, are C variables, which Python does
  not see. So are constants that are imported from a module of limits and annotated there.
- **Constants** are the integers that `if not cython.compiled:` assigns, also by `range`. Python sees those without an
  underscore.
- **Imports** below `if not cython.compiled:` are imports in C (`math`: of C's). So are those of
  extension types that annotations name; other imports remain attributes of the module.
- **Structures and pointers** are names for `cython.struct(...)` and `cython.typedef(...)`.

The decorators above, and what annotations of parameters say beyond these types (`[bytes]` of `list[bytes]`), are left
out of the source that Cython gets: it reads annotations in another way (a `float` is a `cython.double`, names for types
are unknown) and would find them at odds with the `.pxd`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

OBJECT = "object"

_BUILT_IN = frozenset(("bytes", "str", "list", "dict", "set", "frozenset", "tuple", "bytearray"))
_OTHER_NAMES = {
    "longlong": "long long",
    "ulonglong": "unsigned long long",
    "uchar": "unsigned char",
    "p_char": "char*",
    "p_void": "void*",
}
"""The types of `cython` that have another name in a `.pxd`."""

_NUMBERS = frozenset(("bint", "double", "int", "long long", "Py_ssize_t", "unsigned char", "unsigned long long"))

_DECORATORS = frozenset(("ccall", "cfunc", "exceptval", "inline"))

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    """A name that another module is asked for; `in_c`: below `if not cython.compiled:`."""

    module: str
    name: str
    in_c: bool


class Library:
    """The compiled modules, and those of limits, of the sources below `root`."""

    def __init__(self, root: Path, kernel: Sequence[str], beside: Sequence[str], limits: Sequence[str]) -> None:
        self.root = root
        self.compiled = {name: Module(self, name, name in kernel) for name in (*kernel, *beside)}
        self.limits = {name: Module(self, name, True) for name in limits}

    @classmethod
    def of_docstore(cls, *names: Sequence[str]) -> Library:
        """Return that of the working directory, of modules named within `docstore`."""
        return cls(Path(), *([f"docstore.{name}" for name in group] for group in names))

    def write(self, folder: Path) -> None:
        """Write sources and declarations below `folder`. A file that would stay the same is not touched."""
        for name, module in self.compiled.items():
            path = folder / _path(name)
            for package in path.relative_to(folder).parents[:-1]:
                _put(folder / package / "__init__.py", "")
            _put(path, module.source_for_cython())
            _put(path.with_suffix(".pxd"), module.declarations())


def _path(module: str) -> Path:
    return Path(*module.split(".")).with_suffix(".py")


def _put(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Module:
    """One source, and what it declares in C."""

    def __init__(self, library: Library, name: str, in_kernel: bool) -> None:
        self.name = name
        self.in_kernel = in_kernel
        self.imports: dict[str, Import] = {}
        self.classes: dict[str, Class] = {}
        self.functions: list[_Function] = []
        self.constants: dict[str, int] = {}
        self.variables: dict[str, ast.expr] = {}
        self.types: dict[str, ast.expr] = {}
        self._library = library
        self._text = (library.root / _path(name)).read_text()
        self._tree = ast.parse(self._text)
        self._left_out: list[ast.stmt] = []
        self._named: dict[str, Import] = {}
        for statement in self._tree.body:
            self._read(statement)

    def _read(self, statement: ast.stmt) -> None:
        match statement:
            case ast.If(test=test) if ast.unparse(test) == "not cython.compiled":
                for inner in statement.body:
                    self._read_in_c(inner)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                for inner in statement.body:
                    self._read(inner)
            case ast.ImportFrom():
                self._read_import(statement, False)
            case ast.ClassDef():
                self.classes[statement.name] = Class(self, statement)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.append(statement)
            case ast.Assign(targets=[ast.Name(id=name)]):
                self.types[name] = statement.value
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                if ast.unparse(annotation) != "TypeAlias":
                    self.variables[name] = annotation
                elif value is not None:
                    self.types[name] = value
                    if _is_structure(value):
                        self._left_out.append(statement)

    def _read_in_c(self, statement: ast.stmt) -> None:
        match statement:
            case ast.ImportFrom():
                self._read_import(statement, True)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() | ast.UnaryOp()):
                self.constants[name] = ast.literal_eval(statement.value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="range"))):
                self.constants |= {ast.unparse(name): number for number, name in enumerate(names)}

    def _read_import(self, statement: ast.ImportFrom, in_c: bool) -> None:
        for name in statement.names:
            self.imports[name.asname or name.name] = Import(statement.module or "", name.name, in_c)

    def source_for_cython(self) -> str:
        """Return the source with spaces in place of what the declarations say instead."""
        lines = [bytearray(line) for line in self._text.encode().splitlines(keepends=True)]
        for first, begin, last, end in self._said_in_declarations():
            for number in range(first, last + 1):
                line = lines[number - 1]
                left = begin if number == first else 0
                right = end if number == last else len(line) - 1
                line[left:right] = b" " * (right - left)
        return b"".join(lines).decode()

    def _said_in_declarations(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the first line and column, and the last, of what Cython does not get."""
        for statement in self._left_out:
            yield _span(statement)
        functions = [Signature(self, function, None) for function in self.functions]
        methods = [Signature(self, method, each) for each in self.classes.values() for method in each.methods.values()]
        for signature in (*functions, *methods):
            yield from signature.said_in_declarations()

    def declarations(self) -> str:
        """Return the contents of the `.pxd`."""
        self._named = {name: asked for name, asked in self.imports.items() if self._is_in_c(name, asked)}
        body = [
            *self._structures(),
            *(f"cdef {c_type} {name}" for name, c_type in self._c_variables()),
            *self._enumeration("cpdef", [name for name in self.constants if not name.startswith("_")]),
            *self._enumeration("cdef", [name for name in self.constants if name.startswith("_")]),
        ]
        for each in self.classes.values():
            if each.is_extension_type():
                body += each.declarations()
        body += [line for function in self.functions if (line := Signature(self, function, None).declaration())]
        imports = [
            f"from {'libc.math' if asked.module == 'math' else asked.module} cimport {_renamed(asked.name, name)}"
            for name, asked in self._named.items()
        ]
        return "\n".join((f"# Generated from {_path(self.name)}.", *imports, *body, ""))

    def _is_in_c(self, name: str, asked: Import) -> bool:
        if asked.in_c:
            return asked.module == "math" or asked.module in self._library.compiled
        return name in self._annotating() and self.extension_type(name) is not None

    def _annotating(self) -> set[str]:
        """Return the names that stand in annotations."""
        found: list[ast.AST | None] = []
        for node in ast.walk(self._tree):
            match node:
                case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation):
                    found.append(annotation)
                case ast.FunctionDef(returns=annotation) | ast.AsyncFunctionDef(returns=annotation):
                    found.append(annotation)
        return {name.id for each in found if each is not None for name in ast.walk(each) if isinstance(name, ast.Name)}

    def _structures(self) -> Iterator[str]:
        for name, value in self.types.items():
            if not _is_structure(value):
                continue
            if isinstance(value, ast.Call) and value.keywords:
                yield f"cdef struct {name}:"
                yield from (f"    {self.type_of(member.value)} {member.arg}" for member in value.keywords)
            elif isinstance(value, ast.Call):
                yield f"ctypedef {self.type_of(value.args[0])} {name}"

    def _c_variables(self) -> Iterator[tuple[str, str]]:
        for name, annotation in self.variables.items():
            c_type = self.type_of(annotation)
            if c_type != OBJECT or ast.unparse(annotation) == OBJECT:
                yield name, c_type
        for name, asked in self.imports.items():
            limits = self._library.limits.get(asked.module)
            if limits is not None and asked.name in limits.variables:
                yield name, limits.type_of(limits.variables[asked.name])

    def _enumeration(self, kind: str, names: list[str]) -> list[str]:
        return [f"{kind} enum:", *(f"    {name} = {self.constants[name]}" for name in names)] if names else []

    def extension_type(self, name: str) -> Class | None:
        """Return the extension type of that name here."""
        found = self._found(name)
        return found if isinstance(found, Class) and found.is_extension_type() else None

    def _found(self, name: str) -> Class | tuple[Module, ast.expr] | None:
        if name in self.classes:
            return self.classes[name]
        if name in self.types:
            return self, self.types[name]
        asked = self.imports.get(name)
        other = self._library.compiled.get(asked.module) if asked is not None else None
        return other._found(asked.name) if asked is not None and other is not None else None

    def type_of(self, annotation: ast.expr | None, asking: Module | None = None) -> str:
        """Return the type of an annotation in C. `asking`: the module that declares something of it."""
        asking = asking or self
        match annotation:
            case ast.Constant(value=str(text)):
                return self.type_of(ast.parse(text, mode="eval").body, asking)
            case ast.Attribute(value=ast.Name(id="cython"), attr=name):
                return _OTHER_NAMES.get(name, name)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="cython"), attr="pointer"), slice=pointed):
                return f"{self.type_of(pointed, asking)}*"
            case ast.Subscript(value=generic):
                return self.type_of(generic, asking)
            case ast.BinOp(op=ast.BitOr()):
                return self._type_of_union(annotation, asking)
            case ast.Name(id="bool"):
                return "bint"
            case ast.Name(id=name) if name in _BUILT_IN:
                return name
            case ast.Name(id=name):
                found = self._found(name)
                if isinstance(found, Class):
                    return asking.named(found) if found.is_extension_type() else OBJECT
                if found is None:
                    return OBJECT
                module, value = found
                return name if _is_structure(value) else module.type_of(value, asking)
        return OBJECT

    def _type_of_union(self, annotation: ast.expr, asking: Module) -> str:
        members = [member for member in _members(annotation) if ast.unparse(member) != "None"]
        types = {self.type_of(member, asking) for member in members}
        c_type = types.pop() if len(types) == 1 else OBJECT
        return c_type if c_type in _BUILT_IN or asking.extension_type(c_type) else OBJECT

    def named(self, found: Class) -> str:
        """Return the name of a class in this module's declarations, which import it."""
        if found.module is not self:
            self._named.setdefault(found.name, Import(found.module.name, found.name, True))
        return found.name


class Class:
    """A class of a compiled module."""

    def __init__(self, module: Module, node: ast.ClassDef) -> None:
        self.module = module
        self.name = node.name
        self._node = node
        self.methods = {method.name: method for method in node.body if isinstance(method, _Function)}

    def is_extension_type(self) -> bool:
        """True if it is compiled as a type of C."""
        decorators = [ast.unparse(decorator) for decorator in self._node.decorator_list]
        is_data = any(decorator.startswith("dataclass") for decorator in decorators)
        if any("slots=True" in decorator for decorator in decorators):
            return False
        if not is_data and any(annotated.value is not None for annotated in self._annotated()):
            return False
        return all(isinstance(base, ast.Name) and self.module.extension_type(base.id) for base in self._node.bases)

    def bases(self) -> Iterator[Class]:
        """Yield the base, the base of the base, ..."""
        for base in self._node.bases:
            found = self.module.extension_type(ast.unparse(base))
            if found is not None:
                yield found
                yield from found.bases()

    def declarations(self) -> list[str]:
        """Return the lines of an extension type."""
        bases = ", ".join(self.module.named(base) for base in list(self.bases())[:1])
        body = [*self._attribute_lines()]
        for method in self.methods.values():
            if line := Signature(self.module, method, self).declaration():
                body.append(line)
        return [
            f"cdef class {self.name}{f'({bases})' if bases else ''}:",
            *(f"    {line}" for line in body or ["pass"]),
        ]

    def _attribute_lines(self) -> Iterator[str]:
        if self._has_weak_references():
            yield "cdef object __weakref__"
        inherited = {name for base in self.bases() for name in base.attributes()}
        for name, c_type in self.attributes().items():
            if name in inherited:
                continue
            is_hidden = (
                c_type.endswith("*") or name == "__weakref__" or (self.module.in_kernel and name.startswith("_"))
            )
            yield f"cdef {'' if is_hidden else 'public '}{c_type} {name}"

    def _has_weak_references(self) -> bool:
        slots = [ast.unparse(statement) for statement in self._node.body if _is_slots(statement)]
        return any("'__weakref__'" in names for names in slots)

    def attributes(self) -> dict[str, str]:
        """Return the types of its own attributes."""
        found = {
            ast.unparse(annotated.target): self.module.type_of(annotated.annotation) for annotated in self._annotated()
        }
        for method in self.methods.values():
            parameters = {parameter.arg: parameter.annotation for parameter in _parameters(method)}
            for target, value, annotation in _assigned(method):
                if target in found or target in self.methods:
                    continue
                if annotation is not None:
                    found[target] = self.module.type_of(annotation)
                elif isinstance(value, ast.Name) and value.id in parameters:
                    found[target] = self.module.type_of(parameters[value.id])
                else:
                    found[target] = self._type_of_value(value)
        return found

    def _annotated(self) -> Iterator[ast.AnnAssign]:
        for statement in self._node.body:
            if isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(statement.annotation):
                yield statement

    def _type_of_value(self, value: ast.expr | None) -> str:
        match value:
            case ast.Constant(value=bool()) | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return "bint"
            case ast.Constant(value=bytes() | str() as text):
                return type(text).__name__
            case ast.Dict() | ast.DictComp():
                return "dict"
            case ast.List() | ast.ListComp():
                return "list"
            case ast.Tuple():
                return "tuple"
            case ast.Call(func=ast.Name() as function):
                return self.module.type_of(function)
        return OBJECT


class Signature:
    """A function, or a method of `owner`."""

    def __init__(self, module: Module, function: _Function, owner: Class | None) -> None:
        self._module = module
        self._function = function
        self._owner = owner
        self._decorators = {_decorator(node): node for node in function.decorator_list}

    def declaration(self) -> str | None:
        """Return its line; None for a function of Python."""
        kind = self.kind()
        if kind is None:
            return None
        parameters = self._function.args.args
        required = len(parameters) - len(self._function.args.defaults)
        written = [
            "self"
            if self._owner is not None and place == 0
            else f"{self._type_of(parameter.annotation)} {parameter.arg}"
            for place, parameter in enumerate(parameters)
        ]
        written[required:] = [f"{parameter}=*" for parameter in written[required:]]
        result, error = self._type_of(self._function.returns), self.error()
        if error == "noexcept" and result == OBJECT:
            result = "void"
        inline = "inline " if "inline" in self._decorators else ""
        return f"{kind} {inline}{result} {self._function.name}({', '.join(written)}) {error}".rstrip()

    def kind(self) -> str | None:
        """Return "cdef" or "cpdef"; None for a function of Python."""
        if "ccall" in self._decorators:
            return "cpdef"
        if "cfunc" in self._decorators:
            return "cdef"
        overridden = self._overridden()
        if overridden is not None:
            return overridden.kind()
        signature = (self._function.returns, *(parameter.annotation for parameter in _parameters(self._function)))
        in_c = any(annotation is not None and "cython." in ast.unparse(annotation) for annotation in signature)
        return "cdef" if in_c and self._can_be_in_c() else None

    def said_in_declarations(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield where its decorators stand, and what annotations of parameters say beyond their types in C."""
        for name, decorator in self._decorators.items():
            if name is not None:
                line, column, last, end = _span(decorator)
                yield line, column - 1, last, end
        for parameter in _parameters(self._function) if self.kind() is not None else ():
            line, column, *_ = _span(parameter)
            if parameter.annotation is not None and self._type_of(parameter.annotation) == OBJECT:
                yield line, column + len(parameter.arg), *_span(parameter.annotation)[2:]
                continue
            for node in ast.walk(parameter):
                if isinstance(node, ast.Subscript) and ast.unparse(node.value) in _BUILT_IN:
                    yield *_span(node.value)[2:], *_span(node)[2:]

    def error(self) -> str:
        """Return what its results say of errors: "" for those that are objects."""
        said = self._decorators.get("exceptval")
        if isinstance(said, ast.Call):
            options = {option.arg: ast.unparse(option.value) for option in said.keywords}
            if not said.args:
                return "noexcept"
            return f"except{'?' if options.get('check') == 'True' else ''} {ast.unparse(said.args[0])}"
        overridden = self._overridden()
        if overridden is not None:
            return overridden.error()
        result = self._type_of(self._function.returns)
        if result.endswith("*"):
            return "except? NULL"
        return "except? -1" if result in _NUMBERS else ""

    def _overridden(self) -> Signature | None:
        for base in self._owner.bases() if self._owner is not None else ():
            if self._function.name in base.methods:
                return Signature(base.module, base.methods[self._function.name], base)
        return None

    def _type_of(self, annotation: ast.expr | None) -> str:
        return self._module.type_of(annotation)

    def _can_be_in_c(self) -> bool:
        arguments = self._function.args
        if isinstance(self._function, ast.AsyncFunctionDef) or self._function.name.startswith("__"):
            return False
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or None in self._decorators:
            return False
        inner = (node for statement in self._function.body for node in ast.walk(statement))
        return not any(isinstance(node, _NOT_IN_C) for node in inner)


_NOT_IN_C = (ast.Yield, ast.YieldFrom, ast.Lambda, ast.GeneratorExp, ast.FunctionDef, ast.AsyncFunctionDef)


def _decorator(node: ast.expr) -> str | None:
    """Return the name of a decorator of `cython` that says how a function is in C."""
    function = node.func if isinstance(node, ast.Call) else node
    match function:
        case ast.Attribute(value=ast.Name(id="cython"), attr=name) if name in _DECORATORS:
            return name
    return None


def _renamed(name: str, here: str) -> str:
    return name if name == here else f"{name} as {here}"


def _span(node: ast.stmt | ast.expr | ast.arg) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _is_structure(value: ast.expr) -> bool:
    return ast.unparse(value).startswith(("cython.struct(", "cython.typedef("))


def _is_slots(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__slots__"


def _members(annotation: ast.expr) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.BinOp):
        yield from _members(annotation.left)
        yield from _members(annotation.right)
    else:
        yield annotation


def _parameters(function: _Function) -> list[ast.arg]:
    return [*function.args.args, *function.args.kwonlyargs]


def _assigned(method: _Function) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
    """Yield the attributes of `self` that a method assigns, with the value and the annotation, if there are any."""
    for node in ast.walk(method):
        if isinstance(node, ast.AnnAssign):
            pairs: list[tuple[ast.expr, ast.expr | None]] = [(node.target, node.value)]
        elif isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
        else:
            continue
        for target, value in pairs:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                yield target.attr, value, node.annotation if isinstance(node, ast.AnnAssign) else None


def _pairs(target: ast.expr, value: ast.expr | None) -> Sequence[tuple[ast.expr, ast.expr | None]]:
    if not isinstance(target, ast.Tuple):
        return [(target, value)]
    if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(each, None) for each in target.elts]


if __name__ == "__main__":
    from kernel_modules import COMPILED, COMPILED_BESIDE, LIMITS

    Library.of_docstore(COMPILED, COMPILED_BESIDE, LIMITS).write(Path(sys.argv[1]))
