"""The kinds of tasks of the example, by family.

A kind is a function `(writer, mistake) -> Script`. With `mistake` the agent errs once (that step
names the mistake in `inject`) and mends it. A kind draws its whole page before its first step, so
the task with a mistake is the same task as the one without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from adaptermill.example.pages import BANNERS, Page, Widget, cell, square
from adaptermill.example.script import Script, Writer

WORDS = [
    "Ada",
    "Bruno",
    "Clara",
    "Dario",
    "Elena",
    "Felix",
    "Greta",
    "Hugo",
    "Ida",
    "Jonas",
    "Kira",
    "Leon",
    "Mara",
    "Nils",
    "Olga",
    "Paul",
    "Rosa",
    "Stefan",
    "Tilda",
    "Ugo",
    "Vera",
    "Wanda",
    "Yara",
    "Zeno",
    "Apple",
    "Bread",
    "Candle",
    "Desk",
    "Engine",
    "Flower",
    "Garden",
    "Harbour",
    "Island",
    "Jacket",
    "Kettle",
    "Lamp",
    "Mirror",
    "Needle",
    "Orange",
    "Pencil",
    "River",
    "Saddle",
    "Table",
    "Window",
]

Kind = Callable[[Writer, bool], Script]


# ---- Drag & gesture --------------------------------------------------------------------------


def drag_box(writer: Writer, mistake: bool) -> Script:
    """Carry the small box into the frame; where they are, only the screenshot shows."""
    places = [(column, row) for column in range(7) for row in range(1, 4)]
    start, end, missed = writer.random.sample(places, 3)
    box = writer.widget("box", square(*start, 20), "box", "div")
    frame = writer.widget("frame", square(*end, 30), "frame", "div")
    submit = writer.submit()
    page = Page((box, frame, submit))
    if mistake:
        wrong = square(*missed, 20)
        writer.drag(page, box.box, wrong, "Carry the box over.", inject="dropped_outside")
        page = page.changed(box.index, box=wrong)
        box = replace(box, box=wrong)
        house = "It fell outside the frame. Lift it from there and let go over the frame's middle."
    else:
        house = "Grip the box in its middle and let go over the middle of the frame."
    writer.drag(page, box.box, frame.box, house)
    page = page.changed(box.index, box=square(*end, 20))
    writer.click(page, submit, "The box lies within the frame, so submit it.")
    return writer.script("Drag the box into the frame, then press Submit.")


def use_slider(writer: Writer, mistake: bool) -> Script:
    """Move the knob of a slider to a number; the scale goes from 0 to 60, ten a cell."""
    start, end, missed = writer.random.sample(range(7), 3)
    row = writer.random.choice([1, 2, 3])
    track = Widget("track", cell(0, row, 7, margin=12), "")
    knob = writer.widget("knob", square(start, row, 16), "slider", "div")
    submit = writer.submit()
    page = Page((track, knob, submit))
    if mistake:
        wrong = square(missed, row, 16)
        writer.drag(page, knob.box, wrong, f"Push the slider to {10 * end}.", inject="overshoot")
        page = page.changed(knob.index, box=wrong)
        knob = replace(knob, box=wrong)
        house = f"That is {10 * missed}, too far off. Bring the knob back to {10 * end}."
    else:
        house = f"Hold the knob and bring it to {10 * end} on the scale."
    writer.drag(page, knob.box, square(end, row, 16), house)
    page = page.changed(knob.index, box=square(end, row, 16))
    writer.click(page, submit, f"The knob stands at {10 * end}, so submit it.")
    return writer.script(f"Set the slider to {10 * end}, then press Submit.")


def scroll_area(writer: Writer, mistake: bool) -> Script:
    """Scroll a text to one of its ends; how far it is, only the scroll bar shows."""
    down = writer.random.random() < 0.5
    pages = writer.random.choice([1, 2])
    area = writer.widget(
        "area", (8, 36, 215, 120), "text", "textarea", level=0.5 if pages == 1 else 1.0 - down
    )
    submit = writer.submit()
    page = Page((area, submit))
    side = "end" if down else "start"
    level = area.level

    def scroll(towards: bool, house: str, inject: str | None = None) -> None:
        nonlocal level, page
        asked = {"down": towards, "pages": 1.0, "index": area.index}
        word = "down" if towards else "up"
        writer.act(page, house, f"Scroll {word}.", {"scroll": asked}, f"Scrolled {word}", inject)
        level += 0.5 if towards else -0.5
        page = page.changed(area.index, level=level)

    if mistake and pages == 1:
        scroll(not down, f"Move towards the {side}.", inject="wrong_way")
        scroll(down, f"The bar went away from the {side}. Turn round.")
    elif mistake:
        scroll(down, f"Move towards the {side}.")
        scroll(not down, f"Move towards the {side}.", inject="wrong_way")
        scroll(down, f"The bar went away from the {side}. Turn round.")
    while level not in (0.0, 1.0) or level != float(down):
        scroll(down, f"The bar is not at the {side} yet. Move it on.")
    writer.click(page, submit, f"The bar is at the {side}, so submit it.")
    return writer.script(f"Scroll the text to its {side}, then press Submit.")


# ---- Discrete selection ----------------------------------------------------------------------


def press_colour(writer: Writer, mistake: bool) -> Script:
    """Press the button that names the page's colour, which the prompt does not tell."""
    names = writer.random.sample(list(BANNERS), len(BANNERS))
    colour, wrong = writer.random.sample(names, 2)
    buttons = dict(zip(names, writer.buttons(names), strict=True))
    page = Page(tuple(buttons.values()), BANNERS[colour])
    if mistake:
        house = "Look at the page and press what it shows."
        writer.click(page, buttons[wrong], house, inject="wrong_option")
        house = f"{wrong} was refused: the page is {colour.lower()}. Take {colour}."
    else:
        house = f"The page is {colour.lower()}, which asks for {colour}."
    writer.click(page, buttons[colour], house)
    return writer.script("Press the button that names the colour of the page.")


def tick_boxes(writer: Writer, mistake: bool) -> Script:
    """Tick one or two of three check boxes."""
    names = writer.random.sample(WORDS, 3)
    wanted = writer.random.sample(names, writer.random.choice([1, 2]))
    wanted.sort(key=names.index)
    boxes = {
        name: writer.widget("checkbox", cell(0, row, 5), name, "checkbox")
        for row, name in enumerate(names, 1)
    }
    submit = writer.submit()
    page = Page((*boxes.values(), submit))

    def tick(name: str, house: str, inject: str | None = None) -> None:
        nonlocal page
        writer.click(page, boxes[name], house, inject)
        on = next(w.on for w in page.widgets if w.index == boxes[name].index)
        page = page.changed(boxes[name].index, on=not on)

    for place, name in enumerate(wanted):
        if mistake and place == len(wanted) - 1:
            wrong = next(other for other in names if other not in wanted)
            tick(wrong, f"Tick the box of {name}.", inject="wrong_checkbox")
            tick(wrong, f"{wrong} was not asked for. Clear its box again.")
        tick(name, f"The box of {name} is still empty. Tick it.")
    writer.click(page, submit, "No wanted box is empty now, so submit it.")
    return writer.script(f"Tick {' and '.join(wanted)}, then press Submit.")


def pick_option(writer: Writer, mistake: bool) -> Script:
    """Choose one of the options of a drop-down list."""
    options = writer.random.sample(WORDS, 3)
    option, wrong = writer.random.sample(options, 2)
    select = writer.widget("select", cell(0, 1, 6), "List", "select", value=", ".join(options))
    submit = writer.submit()
    page = Page((replace(select, value=""), submit))
    listed = Page((select, submit))

    def pick(text: str, house: str, inject: str | None = None) -> None:
        asked = {"select_dropdown": {"index": select.index, "text": text}}
        writer.act(listed, house, f"Choose {text}.", asked, f"Chose {text} in List", inject)

    if mistake:
        pick(wrong, f"Open the list for {option}.", inject="wrong_option")
        pick(option, f"The list says {wrong} now, which is wrong. Change it to {option}.")
    else:
        pick(option, f"The list offers {option}. Choose it there.")
    chosen = page.changed(select.index, value=option)
    writer.click(chosen, submit, f"The list says {option}, so submit it.")
    return writer.script(f"Choose {option} in the list, then press Submit.")


# ---- Text entry ------------------------------------------------------------------------------


def enter_text(writer: Writer, mistake: bool, old: str = "") -> Script:
    """Type a word into one of two fields."""
    text, slip = writer.random.sample(WORDS, 2)
    labels = writer.random.sample(["Name", "City", "Thing", "Note"], 2)
    row = writer.random.sample([0, 1], 2)[0]
    fields = [
        writer.widget(
            "field", cell(0, 1 + place, 6), label, "input", value=old if not place else ""
        )
        for place, label in enumerate(labels)
    ]
    submit = writer.submit()
    if old:
        row = 0
    page = Page((*fields, submit))
    field = fields[row]
    if mistake:
        writer.type(page, field, slip, f"Put {text} into {field.text}.", inject="wrong_text")
        field = replace(field, value=slip)
        page = page.changed(field.index, value=slip)
        house = f"{field.text} holds {slip} by mistake. Put {text} in its place."
    elif old:
        house = f"{field.text} still holds {old}. Put {text} in its place."
    else:
        house = f"{field.text} is empty. Put {text} there."
    writer.type(page, field, text, house)
    page = page.changed(field.index, value=text, on=True)
    writer.click(page, submit, f"{field.text} reads {text} now, so submit it.")
    return writer.script(f"Enter {text} into {field.text}, then press Submit.")


def replace_text(writer: Writer, mistake: bool) -> Script:
    """Type a word into a field that already holds another."""
    return enter_text(writer, mistake, old=writer.random.choice(WORDS))


# ---- Form transaction ------------------------------------------------------------------------


def log_in(writer: Writer, mistake: bool) -> Script:
    """Fill in a user and a password."""
    user, word = writer.random.sample(WORDS, 2)
    password = f"{word}{writer.random.randint(10, 99)}"
    first = writer.widget("field", cell(0, 1, 6), "User", "input")
    second = writer.widget("field", cell(0, 2, 6), "Password", "input")
    send = writer.submit("Login")
    page = Page((first, second, send))
    writer.type(page, first, user, f"The form starts with the user, {user}.")
    page = page.changed(first.index, value=user)
    if mistake:
        filled = replace(first, value=user)
        writer.type(page, filled, password, "The password comes next.", inject="wrong_field")
        filled = replace(first, value=password)
        page = page.changed(first.index, value=password)
        writer.type(page, filled, user, f"The password went into User. Restore {user} there.")
        page = page.changed(first.index, value=user)
    writer.type(page, second, password, f"The user is in. The password {password} follows.")
    page = page.changed(second.index, value=password)
    writer.click(page, send, "The form is full, so log in.")
    return writer.script(f"Log in as {user} with the password {password}.")


def order(writer: Writer, mistake: bool) -> Script:
    """Choose a size and give a name, then buy."""
    name, slip = writer.random.sample(WORDS, 2)
    sizes = ["Small", "Medium", "Large"]
    size = writer.random.choice(sizes)
    first = writer.widget("select", cell(0, 1, 6), "Size", "select", value=", ".join(sizes))
    second = writer.widget("field", cell(0, 2, 6), "For", "input")
    buy = writer.submit("Buy")
    page = Page((first, second, buy))
    asked = {"select_dropdown": {"index": first.index, "text": size}}
    house = f"The order starts with its size, {size}."
    writer.act(page, house, f"Choose {size}.", asked, f"Chose {size} in Size")
    page = page.changed(first.index, value=size)
    if mistake:
        writer.type(page, second, slip, f"It is for {name}.", inject="wrong_text")
        page = page.changed(second.index, value=slip)
        second = replace(second, value=slip)
        writer.type(page, second, name, f"The order is not for {slip}. Make it {name}.")
    else:
        writer.type(page, second, name, f"The size is set. It is for {name}.")
    page = page.changed(second.index, value=name)
    writer.click(page, buy, "The order is whole, so buy it.")
    return writer.script(f"Order a {size} one for {name}.")


# ---- Navigation ------------------------------------------------------------------------------


def follow_link(writer: Writer, mistake: bool) -> Script:
    """Open one of the links of a page."""
    names = writer.random.sample(WORDS, 4)
    name, wrong = writer.random.sample(names, 2)
    links = {
        text: writer.widget("link", cell(0, row, 4), text, "a") for row, text in enumerate(names, 1)
    }
    back = writer.widget("link", cell(0, 1, 4), "Back", "a")
    page = Page(tuple(links.values()))
    if mistake:
        writer.click(page, links[wrong], f"Follow the link to {name}.", inject="wrong_link")
        strayed = Page((back, Widget("text", cell(0, 2, 6), f"This is {wrong}.", tag="p")))
        writer.click(strayed, back, f"This page is {wrong}, not {name}. Return.")
    writer.click(page, links[name], f"A link leads to {name}. Follow it.")
    last = Page((Widget("text", cell(0, 1, 6), f"This is {name}.", tag="p"),))
    return writer.script(f"Open the page {name}.", last)


def open_tab(writer: Writer, mistake: bool) -> Script:
    """Find a link that lies behind one of three tabs."""
    link_name = writer.random.choice(WORDS)
    number, wrong = writer.random.sample([1, 2], 2)
    tabs = [
        writer.widget("tab", cell(2 * place, 1, 2, margin=2), f"Tab {place + 1}", "button")
        for place in range(3)
    ]
    link = writer.widget("link", cell(0, 3, 5), link_name, "a")

    def opened(place: int) -> Page:
        shown = [replace(tab, on=other == place) for other, tab in enumerate(tabs)]
        below = [link] if place == number else []
        return Page((*shown, *below))

    page = opened(0)
    if mistake:
        house = f"Turn to tab {number + 1}."
        writer.click(page, tabs[wrong], house, inject="wrong_tab")
        page = opened(wrong)
        house = f"Tab {wrong + 1} has no {link_name}. Turn to tab {number + 1}."
        writer.click(page, tabs[number], house)
    else:
        writer.click(page, tabs[number], f"{link_name} lies behind tab {number + 1}. Turn to it.")
    writer.click(opened(number), link, f"Here is the link to {link_name}. Follow it.")
    last = Page((Widget("text", cell(0, 1, 6), f"This is {link_name}.", tag="p"),))
    return writer.script(f"Open tab {number + 1} and follow the link {link_name}.", last)


# ---- Out-of-page I/O -------------------------------------------------------------------------


def save_note(writer: Writer, mistake: bool) -> Script:
    """Write what the page says to a file."""
    label = writer.random.choice(["Code", "Owner", "Place"])
    word, slip = writer.random.sample(WORDS, 2)
    shown = Widget("text", cell(0, 1, 6), label, word, tag="p")
    also = Widget("text", cell(0, 2, 6), "Draft", slip, tag="p")
    page = Page((shown, also))

    def write(text: str, house: str, inject: str | None = None) -> None:
        asked = {"write_file": {"file_name": "note.txt", "content": text}}
        writer.act(page, house, f"Save {text}.", asked, f"Wrote {text} to note.txt", inject)

    if mistake:
        write(slip, f"Keep the {label} in a file.", inject="wrong_text")
        write(word, f"The file got the draft, {slip}. Write {word} over it.")
    else:
        write(word, f"{label} reads {word}. Keep that in a file.")
    return writer.script(f"Save what {label} says to note.txt.", page)


def use_note(writer: Writer, mistake: bool) -> Script:
    """Read a file and type what it holds."""
    word = writer.random.choice(WORDS)
    right, wrong = writer.random.sample(["note.txt", "list.txt", "code.txt"], 2)
    target = writer.widget("field", cell(0, 1, 6), "Word", "input")
    submit = writer.submit()
    page = Page((target, submit))

    def read(name: str, house: str, result: str, inject: str | None = None) -> None:
        asked = {"read_file": {"file_name": name}}
        writer.act(page, house, f"Read {name}.", asked, result, inject)

    if mistake:
        read(wrong, f"The word is in {right}.", f"{wrong} is empty", inject="wrong_file")
        read(right, f"{wrong} is not the file. Look into {right}.", f"{right} holds {word}")
    else:
        read(right, f"The word is in {right}. Look into it.", f"{right} holds {word}")
    writer.type(page, target, word, f"The file says {word}. Carry it into Word.")
    page = page.changed(target.index, value=word)
    writer.click(page, submit, f"Word reads {word} now, so submit it.")
    return writer.script(f"Type the word that {right} holds into Word, then press Submit.")


def copy_paste(writer: Writer, mistake: bool) -> Script:
    """Copy a field and paste it into another, by keys."""
    word = writer.random.choice(WORDS)
    source = writer.widget("field", cell(0, 1, 6), "From", "input", value=word)
    target = writer.widget("field", cell(0, 2, 6), "To", "input")
    submit = writer.submit()
    page = Page((source, target, submit))

    def keys(pressed: tuple[str, ...], house: str, generic: str) -> None:
        asked = [{"send_keys": {"keys": key}} for key in pressed]
        writer.act(page, house, generic, asked, f"Pressed {' '.join(pressed)}")

    if mistake:
        writer.click(page, target, "Put the cursor into From.", inject="wrong_field")
        page = page.changed(target.index, on=True)
        writer.click(page, source, "The cursor is in To, where nothing can be copied. Go to From.")
        page = page.changed(target.index, on=False)
    else:
        writer.click(page, source, f"{word} has to be copied. Put the cursor into From.")
    page = page.changed(source.index, on=True)
    keys(("Control+a", "Control+c"), "The cursor is in From. Mark all and copy.", "Copy it.")
    writer.click(page, target, "The copy is made. Put the cursor into To.")
    page = page.changed(source.index, on=False).changed(target.index, on=True)
    keys(("Control+v",), "The cursor is in To. Paste.", "Paste it.")
    page = page.changed(target.index, value=word)
    writer.click(page, submit, f"To reads {word} now, so submit it.")
    return writer.script("Copy the text of From into To, then press Submit.")


# ---- Reasoning base --------------------------------------------------------------------------


def add_numbers(writer: Writer, mistake: bool) -> Script:
    """Type the sum of two small numbers."""
    first, second = writer.random.randint(1, 5), writer.random.randint(1, 5)
    total, wrong = first + second, first + second + writer.random.choice([-1, 1])
    question = Widget("text", cell(0, 1, 6), f"{first} + {second} =", tag="p")
    answer = writer.widget("field", cell(0, 2, 6), "Sum", "input")
    submit = writer.submit()
    page = Page((question, answer, submit))
    if mistake:
        house = f"Work out {first} plus {second}."
        writer.type(page, answer, str(wrong), house, inject="wrong_answer")
        page = page.changed(answer.index, value=str(wrong))
        answer = replace(answer, value=str(wrong))
        house = f"{wrong} is wrong: {first} plus {second} makes {total}."
    else:
        house = f"{first} plus {second} makes {total}."
    writer.type(page, answer, str(total), house)
    page = page.changed(answer.index, value=str(total))
    writer.click(page, submit, f"The sum {total} is in, so submit it.")
    return writer.script("Work out the sum, then press Submit.")


def count_shapes(writer: Writer, mistake: bool) -> Script:
    """Press the button with the number of squares, which only the screenshot shows."""
    count, wrong = writer.random.sample([1, 2, 3, 4], 2)
    places = writer.random.sample([(column, row) for column in range(7) for row in (1, 2)], count)
    shapes = [Widget("shape", square(*place, 24), "") for place in places]
    buttons = [
        writer.widget("button", cell(place, 4, margin=4), str(place + 1), "button")
        for place in range(4)
    ]
    page = Page((*shapes, *buttons))
    if mistake:
        house = "Count the squares one by one."
        writer.click(page, buttons[wrong - 1], house, inject="wrong_answer")
        house = f"It was not {wrong}. Counting again gives {count}."
    else:
        house = f"Counting the squares gives {count}."
    writer.click(page, buttons[count - 1], house)
    return writer.script("How many squares are there? Press that number.")


# Every kind has a name of its own; episodes are named by it.
FAMILIES: dict[str, dict[str, Kind]] = {
    "Drag & gesture": {"drag-box": drag_box, "use-slider": use_slider, "scroll-area": scroll_area},
    "Discrete selection": {
        "press-colour": press_colour,
        "tick-boxes": tick_boxes,
        "pick-option": pick_option,
    },
    "Text entry": {"enter-text": enter_text, "replace-text": replace_text},
    "Form transaction": {"log-in": log_in, "order": order},
    "Navigation": {"follow-link": follow_link, "open-tab": open_tab},
    "Out-of-page I/O": {"save-note": save_note, "use-note": use_note, "copy-paste": copy_paste},
    "Reasoning base": {"add-numbers": add_numbers, "count-shapes": count_shapes},
}
