"""The simple XML that managers print, read by pieces: an answer that is cut or has a banner in
it still gives its whole pieces. No entities but the five, no comments, no namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

_ELEMENT = re.compile(r"<([\w.:-]+)>(.*?)</\1>", re.DOTALL)


def blocks(text: str, tag: str) -> Iterator[str]:
    """The inside of every whole `<tag>…</tag>`."""
    return (m[1] for m in re.finditer(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL))


def children(inside: str) -> Iterator[tuple[str, str]]:
    """(name, inside) of the elements of one block, outermost only."""
    return ((m[1], m[2]) for m in _ELEMENT.finditer(inside))


def flat(inside: str) -> dict[str, str]:
    """`<a><b>1</b></a><c>2</c>` as `{"a.b": "1", "c": "2"}`."""
    found: dict[str, str] = {}
    for name, inner in children(inside):
        if "<" in inner:
            found |= {f"{name}.{key}": unescape(value) for key, value in children(inner)}
        else:
            found[name] = unescape(inner) if "&" in inner else inner
    return found


def attributes(text: str, tag: str) -> Iterator[dict[str, str]]:
    """The attributes of every `<tag …>`."""
    for match in re.finditer(rf"<{tag}((?:\s+[\w.:-]+=(?:\"[^\"]*\"|'[^']*'))*)\s*/?>", text):
        yield {
            name: unescape(quoted[1:-1])
            for name, quoted in re.findall(r"([\w.:-]+)=(\"[^\"]*\"|'[^']*')", match[1])
        }
