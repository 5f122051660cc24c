"""What is changed: operators of cosmic-ray, omissions, and faults of meaning (meaning.py).

A candidate is a node of parso's tree with a function that changes it. Type annotations, text of
errors and help are left out: a change there is no fault of the computation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cosmic_ray.plugins
import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from meaning import OPERATORS as MEANING
from meaning import parsed

Positions = Iterator[tuple[tuple[int, int], tuple[int, int]]]

OF_COSMIC_RAY = re.compile(
    r"core/(AddNot|ZeroIterationForLoop|NumberReplacer|ReplaceAndWithOr|ReplaceOrWithAnd"
    r"|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceBreakWithContinue|ReplaceContinueWithBreak"
    r"|ReplaceUnaryOperator_Delete_(Not|USub)"
    r"|ReplaceComparisonOperator_(Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Div|Mod_FloorDiv"
    r"|BitOr_BitAnd|BitAnd_BitOr|LShift_RShift|RShift_LShift))$"
)


class _Left(Operator):
    """An operator that leaves something out."""

    kind = ""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Positions:
        for found in self.found(node):
            yield found.start_pos, found.end_pos

    def found(self, node: parso.tree.NodeOrLeaf) -> list[parso.tree.NodeOrLeaf]:
        raise NotImplementedError

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class DropItem(_Left):
    """An argument with a name, or an element of a display, is left out."""

    kind = "item"

    def found(self, node: parso.tree.NodeOrLeaf) -> list[parso.tree.NodeOrLeaf]:
        if node.type == "arglist":
            return [each for each in node.children if _is_named(each)]
        if node.type == "trailer":  # a call with one argument
            return [each for each in node.children if _is_named(each)]
        if node.type == "testlist_comp" and "for" not in node.get_code():
            return [each for each in node.children if each != ","]
        if node.type == "dictorsetmaker" and " for " not in node.get_code():
            return [each for each in node.children[::4] if node.children[1:2] == [":"]]
        return []

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        place = node.children.index(self.found(node)[index])
        last = place + (4 if node.type == "dictorsetmaker" else 2)
        if node.type == "trailer":
            last = place + 1
        del node.children[place:last]
        return node


class DropCheck(_Left):
    """`if …: raise …` never raises."""

    kind = "check"

    def found(self, node: parso.tree.NodeOrLeaf) -> list[parso.tree.NodeOrLeaf]:
        if node.type == "if_stmt" and re.match(r"\s*raise\b", node.children[3].get_code()):
            return [node.children[1]]
        return []

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        node.children[1] = parsed("False", " ")
        return node


class DropCall(_Left):
    """A call that is a statement is left out."""

    kind = "call"

    def found(self, node: parso.tree.NodeOrLeaf) -> list[parso.tree.NodeOrLeaf]:
        if node.type != "simple_stmt" or node.children[0].type != "atom_expr":
            return []
        return [node] if node.children[0].children[-1].get_code().startswith("(") else []

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        return parsed("pass\n", node.get_first_leaf().prefix)


class FirstBranch(_Left):
    """A conditional expression takes its first branch always."""

    kind = "branch"

    def found(self, node: parso.tree.NodeOrLeaf) -> list[parso.tree.NodeOrLeaf]:
        return [node.children[2]] if node.type == "ternary" else []

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        node.children[2] = parsed("True", " ")
        return node


def _is_named(node: parso.tree.NodeOrLeaf) -> bool:
    if node.type != "argument" or node.children[1:2] != ["="]:
        return False
    return node.children[0].value != "strict"  # of zip: equal lengths are checked, not computed


@dataclass(frozen=True)
class Mutant:
    """A fault: lines `before` of a file from line `line` (1 is the first) become `after`."""

    path: str
    line: int
    operator: str
    before: str
    after: str

    def planted(self, code: str) -> str | None:
        """`code` with the fault; None where the lines are not there, or not once."""
        if code.count(self.before) == 1:
            return code.replace(self.before, self.after)
        lines = code.split("\n")
        span = self.before.count("\n") + 1
        if "\n".join(lines[self.line - 1 : self.line - 1 + span]) != self.before:
            return None
        lines[self.line - 1 : self.line - 1 + span] = self.after.split("\n")
        return "\n".join(lines)


OWN = {"item": DropItem, "check": DropCheck, "call": DropCall, "branch": FirstBranch}


def operators() -> dict[str, Operator]:
    """All operators by name."""
    theirs = {
        name: cosmic_ray.plugins.get_operator(name)()
        for name in cosmic_ray.plugins.operator_names()
        if OF_COSMIC_RAY.match(name)
    }
    own = {f"drop/{name}": each() for name, each in OWN.items()}
    return theirs | own | {f"meaning/{name}": each() for name, each in MEANING.items()}


def _left_out(node: parso.tree.NodeOrLeaf) -> bool:
    """Whether a node is in an annotation, an error, a log, help, or code for type checkers."""
    while node is not None:
        if node.type in ("annassign", "decorator", "import_from", "import_name", "assert_stmt"):
            return node.type != "annassign" or "=" not in node.get_code()
        if node.type in ("tfpdef", "raise_stmt", "fstring", "strings", "string"):
            return True
        if node.type == "number" and node.value[:2] in ("0x", "0X"):  # of tables, or any constant
            return True
        code = node.get_code(include_prefix=False)[:40]
        if node.type == "atom_expr" and re.match(
            r"(Annotated|Literal|TypeVar|cast|warn|note|warnings?\.\w+|log\.\w+|Option|option|_\w*option)\b",
            code,
        ):
            return True
        if node.type == "if_stmt" and "TYPE_CHECKING" in code:
            return True
        node = node.parent
    return False


def candidates(path: Path, known: dict[str, Operator]) -> Iterator[tuple[str, int, int]]:
    """Operator, occurrence and line of each change that the operators make in a file."""
    occurrences = dict.fromkeys(known, 0)
    for node in ast_nodes(parso.parse(path.read_text(encoding="utf-8"))):
        left_out = None
        for name, operator in known.items():
            for (line, _), _ in operator.mutation_positions(node):
                left_out = _left_out(node) if left_out is None else left_out
                if not left_out:
                    yield name, occurrences[name], line
                occurrences[name] += 1


def mutant(root: Path, path: str, name: str, occurrence: int, line: int) -> Mutant | None:
    """A fault as lines that change; None where the code is equal or no longer compiles."""
    code = (root / path).read_text(encoding="utf-8")
    changed = mutate_code(code, operators()[name], occurrence)
    if changed is None or changed == code:
        return None
    try:
        compile(changed, path, "exec")
    except SyntaxError:
        return None
    old, new = code.split("\n"), changed.split("\n")
    first = next(n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    last = next(n for n, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b)
    last = min(last, len(old) - first - 1, len(new) - first - 1)
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    return Mutant(path, first + 1, name, "\n".join(before), "\n".join(after))


C_CHANGES = (
    (r"(?<![<>=!-])<(?![<=])", "<="), (r"<=", "<"), (r"(?<![<>=-])>(?![>=])", ">="), (r">=", ">"),
    (r"==", "!="), (r"!=", "=="), (r"&&", "||"), (r"\|\|", "&&"),
    (r"\+ 1\b", ""), (r"- 1\b", ""), (r" \+ ", " - "), (r"\+=", "-="), (r"\b0\b", "1"),
    (r"\bbreak;", "continue;"), (r"(?<=\()!", ""),
)  # fmt: skip
"""Operators for C: a pattern and what takes its place."""


def c_mutants(root: Path, path: str) -> Iterator[Mutant]:
    """All faults of a C file, a line each; comments, strings and the preprocessor are left out."""
    code = (root / path).read_text(encoding="utf-8")
    blank = re.sub(
        r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|^[ \t]*#[^\n]*',
        lambda found: re.sub(r"[^\n]", "\x00", found[0]),
        code,
        flags=re.S | re.M,
    )
    lines = code.split("\n")
    for number, (line, seen) in enumerate(zip(lines, blank.split("\n"), strict=True), 1):
        for pattern, new in C_CHANGES:
            for found in re.finditer(pattern, seen):
                after = line[: found.start()] + new + line[found.end() :]
                yield Mutant(path, number, f"c/{pattern} -> {new}", line, after)
