"""Faults of meaning, as developers make them: a stale state, a wrong order, a missing item.

Each operator changes nodes of parso's tree, as the operators of cosmic-ray do. Dropped fields of
keys and dropped warnings are `DropItem` and `DropCall` of operators.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import parso
from cosmic_ray.operators.operator import Operator

Node = parso.tree.NodeOrLeaf
Positions = Iterator[tuple[tuple[int, int], tuple[int, int]]]
_INDEX = re.compile(r"(ids?|index|indices|rows?|local|own|token|position|at|[a-z])(_ids|s)?$")


class _Meaning(Operator):
    """An operator that changes the nodes that `found` returns."""

    def mutation_positions(self, node: Node) -> Positions:
        for found in self.found(node):
            yield found.start_pos, found.end_pos

    def found(self, node: Node) -> list[Node]:
        raise NotImplementedError

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class DropState(_Meaning):
    """A statement that sets a state (`self.x = …`, `x[i] = …`, `x += …`) is left out."""

    def found(self, node: Node) -> list[Node]:
        return [node] if node.type == "simple_stmt" and _sets_state(node) else []

    def mutate(self, node: Node, index: int) -> Node:
        return parsed("pass\n", node.get_first_leaf().prefix)


class SwapStatements(_Meaning):
    """Two neighbouring statements change places, where one has an effect on the other's objects."""

    def found(self, node: Node) -> list[Node]:
        if node.type not in ("suite", "file_input"):
            return []
        pairs = zip(node.children, node.children[1:], strict=False)
        return [first for first, second in pairs if _may_swap(first, second)]

    def mutate(self, node: Node, index: int) -> Node:
        at = node.children.index(self.found(node)[index])
        first, second = node.children[at : at + 2]
        first_leaf, second_leaf = first.get_first_leaf(), second.get_first_leaf()
        first_leaf.prefix, second_leaf.prefix = second_leaf.prefix, first_leaf.prefix
        node.children[at : at + 2] = second, first
        return node


class _Loop(_Meaning):
    """Loops and comprehensions over fewer items."""

    after = ""

    def found(self, node: Node) -> list[Node]:
        return [node.children[3]] if node.type in ("for_stmt", "sync_comp_for") else []

    def mutate(self, node: Node, index: int) -> Node:
        items = node.children[3]
        code = items.get_code(include_prefix=False)
        brackets = f"({code})" if items.type == "testlist" else code
        node.children[3] = parsed(f"list({brackets}){self.after}", " ")
        return node


class DropFirst(_Loop):
    """A loop or a comprehension leaves out its first item."""

    after = "[1:]"


class DropLast(_Loop):
    """A loop or a comprehension leaves out its last item."""

    after = "[:-1]"


class OnlyFirst(_Meaning):
    """A loop ends after its first item."""

    def found(self, node: Node) -> list[Node]:
        return [node] if node.type == "for_stmt" and node.children[5].type == "suite" else []

    def mutate(self, node: Node, index: int) -> Node:
        suite = node.children[5]
        indent = suite.children[1].get_first_leaf().start_pos[1]
        suite.children.append(parsed("break\n", " " * indent))
        return node


class DropSort(_Meaning):
    """`sorted(…)` keeps the order of its argument."""

    def found(self, node: Node) -> list[Node]:
        return [node] if node.type == "atom_expr" and _called(node) == "sorted" else []

    def mutate(self, node: Node, index: int) -> Node:
        inside = node.children[1].children[1]
        first = inside.children[0] if inside.type == "arglist" else inside
        prefix = node.get_first_leaf().prefix
        return parsed(f"list({first.get_code(include_prefix=False)})", prefix)


class OtherIndex(_Meaning):
    """`x[i]` is read at another index of the same function."""

    def found(self, node: Node) -> list[Node]:
        return [node] if _other_index(node) is not None else []

    def mutate(self, node: Node, index: int) -> Node:
        name = node.children[1]
        node.children[1] = parsed(str(_other_index(node)), name.prefix)
        return node


def parsed(code: str, prefix: str) -> Node:
    """The node of a piece of code, with what stands before it."""
    found = parso.parse(code).children[0]
    found.get_first_leaf().prefix = prefix
    return found


def _called(node: Node) -> str:
    last = node.children[1]
    is_call = len(node.children) == 2 and last.children[0] == "(" and len(last.children) == 3
    return node.children[0].get_code(include_prefix=False) if is_call else ""


def _sets_state(statement: Node) -> bool:
    if statement.type != "simple_stmt" or statement.children[0].type != "expr_stmt":
        return False
    expression = statement.children[0]
    target, operator = expression.children[0], expression.children[1]
    if operator.type == "annassign":
        return False
    return target.type == "atom_expr" or (operator != "=" and operator.get_code().endswith("= "))


def _has_effect(statement: Node) -> bool:
    if statement.type != "simple_stmt":
        return False
    if _sets_state(statement):
        return True
    first = statement.children[0]
    return first.type == "atom_expr" and first.children[-1].get_code().startswith("(")


def _may_swap(first: Node, second: Node) -> bool:
    """Whether one changes what the other reads, and neither needs a name that the other binds."""
    if first.type != "simple_stmt" or second.type != "simple_stmt":
        return False
    if any(each.children[0].type.startswith("import") for each in (first, second)):
        return False
    bound = _bound(first) | _bound(second)
    if bound & _names(first) & _names(second):
        return False
    return _changes(first, second) or _changes(second, first)


def _changes(first: Node, second: Node) -> bool:
    """Whether a statement changes an object, by an attribute or a method, that the other names."""
    if not _has_effect(first):
        return False
    target = first.children[0]
    target = target.children[0] if target.type == "expr_stmt" else target
    last = target.children[-1:] if target.type == "atom_expr" else []
    is_call = bool(last) and last[0].children[0] == "("
    parts = target.children[: -2 if is_call else -1] if last else [target]
    changed = "".join(part.get_code(include_prefix=False) for part in parts)
    return re.search(rf"(?<![\w.]){re.escape(changed)}\b", second.get_code()) is not None


def _names(node: Node) -> set[str]:
    if node.type == "name":
        return {node.value}
    return {name for child in getattr(node, "children", ()) for name in _names(child)}


def _bound(statement: Node) -> set[str]:
    """Names that an assignment binds, not attributes or items of them."""
    expression = statement.children[0]
    if expression.type != "expr_stmt" or expression.children[0].type == "atom_expr":
        return set()
    return _names(expression.children[0])


def _other_index(node: Node) -> str | None:
    """The name of another index of the function of `[name]`."""
    if not _is_index(node):
        return None
    function = node
    while function is not None and function.type != "funcdef":
        function = function.parent
    if function is None:
        return None
    found = sorted({each.children[1].value for each in _subscripts(function)})
    others = [name for name in found if name != node.children[1].value]
    return others[0] if others else None


def _is_index(node: Node) -> bool:
    if node.type != "trailer" or node.children[0] != "[" or node.children[1].type != "name":
        return False
    return _INDEX.match(node.children[1].value) is not None


def _subscripts(node: Node) -> Iterator[Node]:
    if _is_index(node):
        yield node
    for child in getattr(node, "children", ()):
        yield from _subscripts(child)


OPERATORS = {
    "state": DropState, "order": SwapStatements, "first": DropFirst, "last": DropLast,
    "early": OnlyFirst, "sort": DropSort, "index": OtherIndex,
}  # fmt: skip
