"""`ashlar retained`: read, tell, show and write."""

import re
from pathlib import Path

from ashlar import forms, palette
from ashlar.errors import BadInput
from ashlar.files import check_can_write, put
from ashlar.retained import analyser, content, picture, report
from ashlar.said import say
from ashlar.tables import show_parts

_MAKERS = {"html": {".html": report.html}, "md": {".md": report.markdown}, "json": {".json": report.as_json}}


def run(asked) -> None:
    """Show the tables of a dump, and write the reports and the map that are asked for."""
    file, map_file = asked.file, asked.map
    chosen = forms.chosen(asked.form, tuple(_MAKERS)) if asked.form else []
    if map_file and map_file.suffix not in (".svg", ".html"):
        raise BadInput(f"--map {map_file}: a file that ends with .svg or .html is wanted")
    if file != "-" and not Path(file).exists():
        raise BadInput(f"there is no dump {file}; GC.config(dump: \"file\") writes one, and so does ObjectSpace.dump_all(output: file)")
    base = asked.output or _base(file)
    if chosen:
        check_can_write(base)
    if map_file:
        check_can_write(map_file)
    told = analyser.analyse(file, [*asked.classes, *asked.why], blocks=bool(map_file) or "html" in chosen)
    built = content.build(told, "standard input" if file == "-" else Path(file).name, asked.classes, asked.why)
    written = forms.write(built, chosen, _MAKERS, str(base))
    if map_file:
        drawn = picture.heap_map(told["blocks"], palette.css_of_reader()) if map_file.suffix == ".svg" else report.html(built, map_alone=True)
        written.append(put(map_file, drawn, private=True))
    if not asked.quiet:
        show_parts(built.verdict, built.asked or built.tables, built.warnings)
        say("".join(f"\nwrote {path}" for path in written), end="\n" if written else "")


def _base(file: str) -> Path:
    """Where reports go unless told: beside the dump, `app.dump.gz` becomes `app-retained`."""
    if file == "-":
        return Path("retained")
    path = Path(file)
    return path.with_name(re.sub(r"(\.(dump|json|jsonl|gz|heap))+$", "", path.name) + "-retained")
