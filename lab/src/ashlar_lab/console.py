"""A terminal on which every string is text, whatever it holds."""

from rich.console import Console, JustifyMethod, OverflowMethod
from rich.progress import TextColumn
from rich.style import Style
from rich.text import Text

from ashlar.said import one_line, visible


class Terminal(Console):
    """A console to which every string is text: no markup, no names of emoji, no guesses at what to colour."""

    def __init__(self, *, stderr: bool = False, width: int | None = None):
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, *, style: str | Style = "", justify: JustifyMethod | None = None, overflow: OverflowMethod | None = None, **_) -> Text:
        return Text(visible(text), style=style, justify=justify, overflow=overflow)

    def marked(self, mark: str, style: str, text: str) -> None:
        """A line that begins with a mark of the lab's own, in a style."""
        self.print(Text.assemble((mark, style), " ", visible(text)))


class Column(TextColumn):
    """A text column of a progress bar; what fills its fields is text."""

    def __init__(self, form: str, style: str = "none"):
        super().__init__(form, style=style, markup=False)

    def render(self, task) -> Text:
        return Text(one_line(self.text_format.format(task=task)), style=self.style, justify=self.justify)
