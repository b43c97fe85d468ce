"""Small wrong versions of a program: one change of a sign, a constant, a comparison, an argument.

``mutants(source, module)`` lists them. Text that only a reader sees is left alone (docstrings,
messages of errors, f-strings, annotations); so are class bodies outside of their methods, and
``strict=True`` of ``zip``, which is an assertion.

Four classes of changes make no difference that a function promises, and are left out as classes:

* *Amounts of work at a time*: constants called ``BLOCK`` or ``CHUNKS``, and the size that is given
  to ``blocks``. Results do not depend on them; speed and memory do.
* *Tolerances*: a number of at most 1e-5 in the body of a function or in a constant (a tolerance, a
  step, a guard) is not doubled, a number of units of rounding (a multiple of ``eps``) is not
  increased, and an inequality that has one in it is not made strict: what is exactly at one may
  fall on either side. Tolerances that are arguments are stated: their defaults are changed, and
  inequalities with them. So is everything else around a tolerance: a sign, a factor.
* *Most iterations*: one more or one less where a loop has no variable (``for _ in range(40)``) or a
  minimiser is told ``maxiter`` and the like in a dictionary.
* *What is only shown*: calls of a progress ``bar``, and statements that prepare the message of the
  error with which their block ends.

All other changes are made, also those that cannot be noticed: two factors of an inner product that
change places, or another start of a search.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from dataclasses import dataclass

BINARY = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
          ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult}  # fmt: skip
COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
           ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
           ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
DROPPED = (ast.Add, ast.Sub, ast.Mult, ast.Div)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Their arguments may change places.
SYMMETRIC = {"max", "min", "maximum", "minimum", "add", "multiply", "hypot", "logaddexp",
             "isclose", "array_equal"}  # fmt: skip
#: Constants that say how much is done at a time.
WORK = {"BLOCK", "CHUNKS"}
#: Numbers up to this are tolerances, steps or guards.
SMALL = 1e-5
#: Options of minimisers that bound their work.
CAPS = {"maxiter", "maxfun", "maxls", "maxcor"}


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, what it is, and the code that has it.

    ``function`` is the outermost function that holds the change, or "" for a module's constant.
    ``lines`` are those of the statement. ``key`` does not change with the code around the function.
    """

    module: str
    function: str
    lines: tuple[int, int]
    before: str
    after: str
    key: str
    index: int

    def __str__(self):
        return f"{self.module}:{self.lines[0]} {self.function}: {self.before} -> {self.after}"


class Changes:
    """The mutants of one module, in the order of its text; one can be made, and once only."""

    def __init__(self, source: str, module: str):
        self.tree, self.mutants = ast.parse(source), []
        self._changes, left_out = list(_changes(self.tree)), _left_out(self.tree)
        seen, texts = Counter(), {}
        for index, (function, statement, node, after, _) in enumerate(self._changes):
            before, after = _short(node), after if isinstance(after, str) else _short(after)
            whole = function if function is not None else statement
            if whole not in texts:
                texts[whole] = _code(whole)
            name = _qualified(self.tree, function) if function is not None else ""
            what = f"{module}|{name}|{texts[whole]}|{before}|{after}"
            seen[what] += 1
            key = hashlib.sha256(f"{what}|{seen[what]}".encode()).hexdigest()[:16]
            if not left_out(node, self._changes[index][3]):
                mutant = Mutant(module, name, _lines(statement), before, after, key, index)
                self.mutants.append(mutant)

    def make(self, index: int) -> ast.Module:
        """A module of the changed function alone, in its class, or of the changed constant."""
        function, statement, _, _, change = self._changes[index]
        change()
        whole = function if function is not None else statement
        holder = next(top for top in self.tree.body if top is whole or whole in _methods(top))
        if holder is not whole:
            holder = ast.copy_location(ast.ClassDef(holder.name, [], [], [whole], []), whole)
        return ast.fix_missing_locations(ast.Module([holder], []))


def mutants(source: str, module: str) -> list[Mutant]:
    """All mutants of one module, in the order of its text."""
    return Changes(source, module).mutants


def _left_out(tree):
    """Whether a change of a node is of a class that makes no difference (see above)."""
    small = {
        target.id
        for top in tree.body
        if isinstance(top, ast.Assign) and _is_small(top.value)
        for target in top.targets
        if isinstance(target, ast.Name)
    }

    def tolerance(node):
        """Whether a small number, a multiple of eps or a constant for either is in a term."""
        parts = ast.walk(node)
        return any(_is_small(part) or getattr(part, "id", "") in small for part in parts)

    whole, numbers, strict = set(), set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign([ast.Name(name)]) if name in WORK:
                whole.update(map(id, ast.walk(node.value)))
            case ast.Call(ast.Name("blocks"), [_, size]):
                whole.update(map(id, ast.walk(size)))
            case ast.For(ast.Name("_"), ast.Call(ast.Name("range"), [ast.Constant() as most])):
                numbers.add(id(most)), whole.add(id(node.iter))
            case ast.Dict(keys, values):
                named = zip(keys, values, strict=True)
                numbers.update(id(v) for k, v in named if getattr(k, "value", None) in CAPS)
            case ast.BinOp(left, ast.Mult(), right):
                for number, other in ((left, right), (right, left)):
                    if ast.unparse(other).endswith((".eps", " eps")) or ast.unparse(other) == "eps":
                        numbers.add(id(number))
            case ast.Compare(left, _, comparators):
                if any(map(tolerance, [left, *comparators])):
                    strict.add(id(node))
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("bar")))):
                whole.update(map(id, ast.walk(node)))
            case ast.If(_, [*before, ast.Raise()]):
                whole.update(id(part) for statement in before for part in ast.walk(statement))
        if isinstance(node, ast.Constant) and _is_small(node):
            numbers.add(id(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):  # defaults are stated
            stated = [d for d in (*node.defaults, *node.kw_defaults) if d is not None]
            numbers.difference_update(id(part) for d in stated for part in ast.walk(d))

    def left_out(node, after):
        if id(node) in whole:
            return True
        if isinstance(node, ast.Constant):
            return id(node) in numbers
        return id(node) in strict and not _turned(node, after)

    return left_out


def _is_small(node):
    """Whether an expression is a small positive number, or a multiple of eps."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < node.value <= SMALL
    return isinstance(node, ast.BinOp) and ast.unparse(node).endswith("finfo(float).eps")


def _turned(node, after):
    """Whether an equality has become its opposite: another change than that of strictness."""
    equal = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    pairs = zip(node.ops, after.ops, strict=True)
    return any(isinstance(a, equal) and type(a) is not type(b) for a, b in pairs)


def _changes(tree):
    """(outermost function, statement, node, what it becomes, call that makes the change)."""
    for function, body in _bodies(tree):
        for statement in body:
            yield from _in_statement(function, statement)


def _bodies(tree):
    """Statements to be changed: functions and methods with their defaults, module constants."""
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            yield node, [node]
        elif isinstance(node, ast.ClassDef):
            yield from ((method, [method]) for method in _methods(node))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            names = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(names) == 1 and isinstance(names[0], ast.Name) and names[0].id != "__all__":
                yield None, [node]


def _in_statement(function, statement):
    """Changes in one statement: of itself, of its expressions, of the statements inside it."""
    if isinstance(statement, (ast.Raise, ast.Import, ast.ImportFrom)):
        return
    if isinstance(statement, FUNCTIONS):
        holder = statement.args
        for field in ("defaults", "kw_defaults"):
            values = getattr(holder, field)
            for i, value in enumerate(values):
                if value is not None:
                    yield from _in_expression(function, statement, value, _setter(values, i))
        yield from (c for s in statement.body for c in _in_statement(function, s))
        return
    if isinstance(statement, ast.AugAssign) and type(statement.op) in BINARY:
        other = BINARY[type(statement.op)]()
        after = ast.AugAssign(statement.target, other, statement.value)
        yield function, statement, statement, after, lambda: setattr(statement, "op", other)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        if "super()" in ast.unparse(statement.value.func):
            return  # without it the function has other free variables, and cannot be replaced
        yield (function, statement, statement, "(deleted)",
               lambda: setattr(statement, "value", ast.Constant(None)))  # fmt: skip
    for field, value in ast.iter_fields(statement):
        if field in {"annotation", "type_comment", "targets", "target", "msg"}:
            continue
        for item, put in _places(statement, field, value):
            if isinstance(item, ast.stmt):
                yield from _in_statement(function, item)
            elif isinstance(item, (ast.withitem, ast.ExceptHandler, ast.match_case)):
                for inner, nested in ast.iter_fields(item):
                    for part, put_part in _places(item, inner, nested):
                        if isinstance(part, ast.stmt):
                            yield from _in_statement(function, part)
                        elif isinstance(part, ast.expr) and inner == "context_expr":
                            yield from _in_expression(function, statement, part, put_part)
            elif isinstance(item, ast.expr):
                if field == "test":
                    yield from _negated(function, statement, item, put)
                yield from _in_expression(function, statement, item, put)


def _in_expression(function, statement, node, put):
    """Changes of one expression and of those inside it; ``put`` replaces it in its parent."""
    if isinstance(node, ast.JoinedStr):
        return
    for after in _variants(node):
        yield function, statement, node, after, lambda after=after: put(after)
    if isinstance(node, ast.IfExp):
        yield from _negated(function, statement, node.test, _attribute(node, "test"))
    reshaped = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "reshape"
    for field, value in ast.iter_fields(node):
        for item, put_item in _places(node, field, value):
            if reshaped and isinstance(item, ast.UnaryOp):
                continue  # any negative size means what is left
            if isinstance(item, ast.expr) and not _is_docstring(item):
                yield from _in_expression(function, statement, item, put_item)
            elif isinstance(item, ast.keyword) and item.arg != "strict":
                put_value = _attribute(item, "value")
                yield from _in_expression(function, statement, item.value, put_value)
            elif isinstance(item, ast.comprehension):
                yield from _in_expression(function, statement, item.iter, _attribute(item, "iter"))
                for i, test in enumerate(item.ifs):
                    yield from _in_expression(function, statement, test, _setter(item.ifs, i))


def _variants(node):
    """What one expression can become."""
    match node:
        case ast.BinOp(left, op, right):
            if type(op) in BINARY:
                yield ast.BinOp(left, BINARY[type(op)](), right)
            if isinstance(op, DROPPED):
                yield left
            if isinstance(op, ast.MatMult):
                yield ast.BinOp(right, op, left)
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield operand
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                other = [*ops[:i], COMPARE[type(op)](), *ops[i + 1 :]]
                yield ast.Compare(left, other, comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.Constant(value) if isinstance(value, bool):
            yield ast.Constant(not value)
        case ast.Constant(value) if isinstance(value, int):
            yield ast.Constant(value + 1)
        case ast.Constant(value) if isinstance(value, float):
            yield ast.Constant(2 * value if value else 1.0)
        case ast.Attribute(value, "T"):
            yield value
        case ast.Call(ast.Attribute(value, "transpose" | "swapaxes"), _, _):
            yield value
        case ast.Call(func, args, keywords):
            if isinstance(func, ast.Name) and func.id == "range" and args:
                at = min(len(args) - 1, 1)
                less = ast.BinOp(args[at], ast.Sub(), ast.Constant(1))
                yield ast.Call(func, [*args[:at], less, *args[at + 1 :]], keywords)
            if len(args) >= 2 and not any(isinstance(a, ast.Starred) for a in args[:2]):
                name = getattr(func, "attr", getattr(func, "id", ""))
                same = name in SYMMETRIC or ast.dump(args[0]) == ast.dump(args[1])
                if not same and not _names_an_argument(args):
                    yield ast.Call(func, [args[1], args[0], *args[2:]], keywords)


def _names_an_argument(args):
    """Whether this is a check such as ``array(x, "x", ...)``: its swap is refused at once."""
    return isinstance(args[1], ast.Constant) and isinstance(args[1].value, str)


def _negated(function, statement, test, put):
    """A condition that is not a comparison, negated."""
    if not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant)):
        after = ast.UnaryOp(ast.Not(), test)
        yield function, statement, test, after, lambda: put(after)


def _is_docstring(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _places(parent, field, value):
    """The children in one field, each with the call that replaces it."""
    if isinstance(value, list):
        return [(item, _setter(value, i)) for i, item in enumerate(value)]
    return [(value, _attribute(parent, field))]


def _setter(values, i):
    return lambda after: values.__setitem__(i, after)


def _attribute(parent, field):
    return lambda after: setattr(parent, field, after)


def _methods(node):
    if not isinstance(node, ast.ClassDef):
        return []
    return [part for part in node.body if isinstance(part, FUNCTIONS)]


def _qualified(tree, function):
    for node in tree.body:
        if function in _methods(node):
            return f"{node.name}.{function.name}"
    return function.name


def _lines(statement):
    """Lines of a statement; of a compound one, those of its head; of a default, the function's."""
    body = getattr(statement, "body", None)
    if not body or isinstance(statement, FUNCTIONS):  # no test executes the line of a default
        return statement.lineno, statement.end_lineno
    return statement.lineno, max(statement.lineno, body[0].lineno - 1)


def _code(node) -> str:
    """The text of a function without what does not run: its docstring and annotations."""
    node = copy.deepcopy(node)
    for part in ast.walk(node):
        if isinstance(part, FUNCTIONS):
            part.returns = None
            part.body = part.body[1:] if ast.get_docstring(part) else part.body
        elif isinstance(part, ast.arg):
            part.annotation = None
    return ast.unparse(node)


def _short(node):
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 100 else f"{text[:60]} ... {text[-35:]}"
