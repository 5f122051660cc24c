"""Write a scene as SVG: text stays text, nothing is loaded, output is deterministic."""

from xml.sax.saxutils import escape

from modtok_cli.reports.plot.scene import Area, Disc, Label, Line, Scene, Shape

_FONT = "'DejaVu Sans',Verdana,'Noto Sans',Arial,sans-serif"


def to_svg(scene: Scene, *, css_class: str = "", background: bool = True) -> str:
    """The SVG document; it has the scene's size and scales down with its container."""
    width, height = _number(scene.width), _number(scene.height)
    named = f' class="{css_class}"' if css_class else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img"{named} width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" font-family="{_FONT}">',
        f"<title>{_text(scene.title)}</title>",
    ]
    if scene.description:
        parts.append(f"<desc>{_text(scene.description)}</desc>")
    if background:
        parts.append(f'<rect width="{width}" height="{height}" fill="#ffffff"/>')
    parts += map(_draw, scene.shapes)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw(shape: Shape) -> str:
    if isinstance(shape, Line):
        dash = f' stroke-dasharray="{" ".join(map(_number, shape.dash))}"' if shape.dash else ""
        return (
            f'<polyline points="{_points(shape.points)}" fill="none" stroke="{shape.colour}" '
            f'stroke-width="{_number(shape.width)}"{dash}/>'
        )
    if isinstance(shape, Area):
        faint = f' fill-opacity="{_number(shape.opacity)}"' if shape.opacity < 1 else ""
        body = f'<polygon points="{_points(shape.points)}" fill="{shape.fill}"{faint}'
        return _with_tip(body, "polygon", shape.tip)
    if isinstance(shape, Disc):
        x, y = map(_number, shape.centre)
        body = f'<circle cx="{x}" cy="{y}" r="{_number(shape.radius)}" fill="{shape.fill}"'
        return _with_tip(body, "circle", shape.tip)
    return _label(shape)


def _with_tip(body: str, tag: str, tip: str) -> str:
    return f"{body}><title>{_text(tip)}</title></{tag}>" if tip else f"{body}/>"


def _label(label: Label) -> str:
    x, y = map(_number, label.at)
    extra = "" if label.anchor == "start" else f' text-anchor="{label.anchor}"'
    extra += ' font-weight="bold"' if label.bold else ""
    extra += f' transform="rotate(-90 {x} {y})"' if label.vertical else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{_number(label.size)}" fill="{label.colour}"{extra}>'
        f"{_text(label.text)}</text>"
    )


def _points(points: object) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)  # type: ignore[attr-defined]


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    # XML does not allow control characters, which a file name may contain.
    return escape("".join(c if c.isprintable() else "\ufffd" for c in text))
