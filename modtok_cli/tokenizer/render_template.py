"""Render a chat template apart from everything else: `python render_template.py`, JSON on stdin.

A template is a program: it may loop without end or write without end. So it runs in a process of
its own, in Jinja's sandbox, with limits of processor time, memory and output. The environment is
transformers' own. Prints a JSON object: "error" with its line, or the lengths of the texts.

This file imports nothing of modtok.
"""

import json
import sys
from typing import Any

SECONDS, MEMORY, LARGEST = 5, 1 << 30, 1 << 20  # of processor time, bytes, characters
USER, ANSWER = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}
# Some templates demand a system message, some refuse it.
CONVERSATIONS = ([USER], [USER, ANSWER], [{"role": "system", "content": "Be kind"}, USER, ANSWER])


def _limit(seconds: int) -> None:
    try:
        import resource
    except ImportError:  # no such limits on Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _compiled(text: str) -> Any:
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Marks of answers, which transformers adds."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: "2026-11-26"
    return environment.from_string(text)


def _length(template: Any, messages: Any, prompt: bool, variables: Any) -> int:
    length = 0
    values = {"tools": None, "documents": None, **variables}
    for part in template.generate(messages=messages, add_generation_prompt=prompt, **values):
        length += len(part)
        if length > LARGEST:
            raise OverflowError(
                f"it writes more than {LARGEST:,} characters for a short conversation"
            )
    return length


def main() -> dict[str, Any]:
    """Print the result of the template."""
    given = json.load(sys.stdin)
    _limit(given["seconds"])
    try:
        template = _compiled(given["template"])
    except Exception as error:  # of Jinja, or of Python where it is nested too deep
        return {"error": f"{type(error).__name__}: {error}", "line": getattr(error, "lineno", None)}
    lengths, errors = [], []
    for messages in CONVERSATIONS:
        for prompt in (False, True):
            try:
                lengths.append(_length(template, messages, prompt, given["variables"]))
            except (OverflowError, MemoryError) as error:
                return {"error": str(error) or "it needs more than 1 GiB of memory"}
            except Exception as error:  # any that a template raises
                errors.append(f"{type(error).__name__}: {error}")
    return {"lengths": lengths} if lengths else {"error": errors[0]}


if __name__ == "__main__":
    print(json.dumps(main()))
