"""Small web pages: what the element list of a prompt says, and the screenshot that shows it.

    page = Page((Widget("button", cell(0, 1, 2), "Submit", tag="button", index=4),))
    page.elements()   # "[4]<button>Submit</button>"
    page.draw()       # a 224x160 RGB image

Widgets sit in a grid of 7 x 5 cells of 32 pixels, the area of one image token of Qwen-VL models
(patches of 16 pixels, merged two by two).
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from dataclasses import dataclass, replace

from PIL import Image, ImageDraw, ImageFont

CELL = 32
COLUMNS, ROWS = 7, 5
WIDTH, HEIGHT = COLUMNS * CELL, ROWS * CELL

# Colours that a page may have, by the names that buttons carry. Widgets are drawn in greys and in
# colours that no page has, so that a page's colour is a fact of its own.
BANNERS = {"Red": "#d62828", "Green": "#2a9d3a", "Blue": "#2050d0", "Yellow": "#f2c418"}
BANNER_GREY = "#d8d8d8"
PAPER, INK, LINE, FACE = "#ffffff", "#202020", "#707070", "#e6e6e6"
LINK, MARK, BOX, FRAME, KNOB, SHAPE = (
    "#1a3fae",
    "#303030",
    "#e07000",
    "#0090a0",
    "#8000b0",
    "#404040",
)

Box = tuple[int, int, int, int]
Point = tuple[int, int]


def cell(column: int, row: int, columns: int = 1, margin: int = 4) -> Box:
    """Left, top, right and bottom pixel of `columns` cells side by side, less a margin."""
    left, top = column * CELL, row * CELL
    return left + margin, top + margin, left + columns * CELL - margin - 1, top + CELL - margin - 1


def middle(box: Box) -> Point:
    """The pixel in the middle of a box."""
    return (box[0] + box[2] + 1) // 2, (box[1] + box[3] + 1) // 2


def square(column: int, row: int, side: int) -> Box:
    """A square of `side` pixels around the middle of a cell."""
    x, y = column * CELL + CELL // 2, row * CELL + CELL // 2
    half = side // 2
    return x - half, y - half, x + half - 1, y + half - 1


@dataclass(frozen=True)
class Widget:
    """Something on a page.

    `look` names how it is drawn (a key of `_LOOKS`). With a `tag` the element list names it, with
    an `index` it can be acted on. `on`: ticked, chosen or focused. `level`: 0 to 1, how far a
    scroll bar is down.
    """

    look: str
    box: Box
    text: str = ""
    value: str = ""
    tag: str | None = None
    index: int | None = None
    on: bool = False
    level: float = 0.0

    @property
    def element(self) -> str:
        shown = f"{self.text}: {self.value}" if self.value else self.text
        if self.index is None:
            return shown
        checked = " checked" if self.on and self.look == "checkbox" else ""
        return f"[{self.index}]<{self.tag}{checked}>{shown}</{self.tag}>"


@dataclass(frozen=True)
class Page:
    """A page: its widgets from top to bottom, and the colour of its banner (and ground)."""

    widgets: tuple[Widget, ...]
    banner: str = BANNER_GREY

    def elements(self) -> str:
        """The element list of a prompt, a line per widget that has a tag."""
        return "\n".join(widget.element for widget in self.widgets if widget.tag is not None)

    def changed(self, index: int, **changes: object) -> Page:
        """The page with one widget changed."""
        widgets = (replace(w, **changes) if w.index == index else w for w in self.widgets)  # type: ignore[arg-type]
        return replace(self, widgets=tuple(widgets))

    def draw(self) -> Image.Image:
        """The screenshot: RGB, 224x160."""
        image = Image.new(
            "RGB", (WIDTH, HEIGHT), PAPER if self.banner == BANNER_GREY else self.banner
        )
        pen = ImageDraw.Draw(image)
        pen.rectangle((0, 0, WIDTH - 1, CELL - 5), fill=self.banner)
        for widget in self.widgets:
            _LOOKS[widget.look](pen, widget)
        return image

    def png(self) -> bytes:
        """The screenshot as a PNG file."""
        buffer = io.BytesIO()
        self.draw().save(buffer, "PNG")
        return buffer.getvalue()


@functools.cache
def _font() -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default()


def _write(pen: ImageDraw.ImageDraw, place: Point, text: str, colour: str = INK) -> None:
    pen.text(place, text, fill=colour, font=_font())


def _button(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    pen.rectangle(widget.box, fill=FACE, outline=LINE)
    _write(pen, (widget.box[0] + 5, widget.box[1] + 6), widget.text)


def _field(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    left, top, right, bottom = widget.box
    _write(pen, (left, top + 6), widget.text)
    inner = left + 2 * CELL
    pen.rectangle((inner, top, right, bottom), fill=PAPER, outline=INK if widget.on else LINE)
    _write(pen, (inner + 4, top + 6), widget.value)


def _select(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    _field(pen, widget)
    right, top = widget.box[2], widget.box[1]
    pen.polygon([(right - 12, top + 9), (right - 4, top + 9), (right - 8, top + 15)], fill=INK)


def _checkbox(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    left, top = widget.box[0], widget.box[1] + 4
    pen.rectangle((left, top, left + 13, top + 13), outline=INK, fill=MARK if widget.on else PAPER)
    _write(pen, (left + 20, top), widget.text)


def _tab(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    pen.rectangle(widget.box, fill=PAPER if widget.on else FACE, outline=LINE)
    _write(pen, (widget.box[0] + 4, widget.box[1] + 6), widget.text)


def _link(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    left, top = widget.box[0] + 2, widget.box[1] + 4
    _write(pen, (left, top), widget.text, LINK)
    pen.line((left, top + 13, left + 6 * len(widget.text), top + 13), fill=LINK)


def _text(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    shown = f"{widget.text}: {widget.value}" if widget.value else widget.text
    _write(pen, (widget.box[0] + 2, widget.box[1] + 6), shown)


def _area(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    left, top, right, bottom = widget.box
    pen.rectangle(widget.box, fill=PAPER, outline=LINE)
    for line in range(top + 6, bottom - 2, 6):
        pen.line((left + 5, line, right - 20 - (line * 7) % 40, line), fill=FACE)
    pen.rectangle((right - 12, top + 1, right - 1, bottom - 1), fill=FACE)
    knob = top + 1 + round(widget.level * (bottom - top - 26))
    pen.rectangle((right - 12, knob, right - 1, knob + 24), fill=KNOB)


def _filled(colour: str) -> Callable[[ImageDraw.ImageDraw, Widget], None]:
    def fill(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
        pen.rectangle(widget.box, fill=colour)

    return fill


def _frame(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    pen.rectangle(widget.box, outline=FRAME, width=3)


def _track(pen: ImageDraw.ImageDraw, widget: Widget) -> None:
    y = middle(widget.box)[1]
    pen.rectangle((widget.box[0], y - 2, widget.box[2], y + 2), fill=FACE, outline=LINE)


_LOOKS: dict[str, Callable[[ImageDraw.ImageDraw, Widget], None]] = {
    "button": _button,
    "field": _field,
    "select": _select,
    "checkbox": _checkbox,
    "tab": _tab,
    "link": _link,
    "text": _text,
    "area": _area,
    "box": _filled(BOX),
    "knob": _filled(KNOB),
    "shape": _filled(SHAPE),
    "frame": _frame,
    "track": _track,
}
