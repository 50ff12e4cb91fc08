"""A picture of measured costs: bars of the reference's cost over ours, one group of bars for each operation."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

_LEFT, _WIDTH, _BAR, _GAP = 300, 420, 12, 10
_COLOURS = ("#4c78a8", "#f58518", "#54a24b")
_LONGEST = 4.0
"""The ratio at which bars are cut off; their figure stands beside them."""


def draw(groups: list[tuple[str, list[tuple[str, dict[str, float]]]]]) -> str:
    """An SVG. `groups`: for each number of documents its name, and for each operation (name, cost by side)."""
    step = _BAR * len(groups) + _GAP
    names = [name for name, _ in groups[0][1]]
    height = 50 + step * len(names)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 60}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        *_legend([name for name, _ in groups]),
    ]
    for place, name in enumerate(names):
        top = 40 + place * step
        middle = top + _BAR * len(groups) / 2 + 4
        parts.append(f'<text x="{_LEFT - 8}" y="{middle:.0f}" text-anchor="end">{escape(name.replace("`", ""))}</text>')
        for number, (_, rows) in enumerate(groups):
            costs = rows[place][1]
            ratio = costs["reference"] / costs["ours"] if costs.get("reference") and costs["ours"] else 0.0
            y, length = top + number * _BAR, min(ratio, _LONGEST) / _LONGEST * _WIDTH
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{length:.0f}" height="{_BAR - 2}" fill="{_COLOURS[number % 3]}"/>'
                f'<text x="{_LEFT + length + 4:.0f}" y="{y + 9}">{ratio:.2f}</text>'
            )
    equal = _LEFT + _WIDTH / _LONGEST
    parts.append(f'<line x1="{equal}" y1="30" x2="{equal}" y2="{height - 8}" stroke="black" stroke-dasharray="4 3"/>')
    return "\n".join([*parts, "</svg>\n"])


def _legend(names: list[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        x = _LEFT + number * 150
        yield f'<rect x="{x}" y="8" width="10" height="10" fill="{_COLOURS[number % 3]}"/>'
        yield f'<text x="{x + 15}" y="17">{escape(name)}</text>'
    yield '<text x="8" y="17">real / ours, processor time</text>'
