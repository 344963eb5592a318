"""Colours of the charts, one per variant, told apart in light and dark and by shape as well."""

LIGHT = {"ink": "#1b2430", "soft": "#5b6675", "grid": "#e3e7ec", "paper": "#ffffff",
         "series": ("#1f5fbf", "#d2600a", "#12835a", "#b0357f", "#0d7f9c", "#8a6a00", "#c22f3c", "#5f5aa8")}
DARK = {"ink": "#e6eaf0", "soft": "#9aa6b5", "grid": "#2c3541", "paper": "#131920",
        "series": ("#6ea8ff", "#ff9f55", "#4fd09b", "#f07cc0", "#52c7e6", "#dcb84a", "#ff7d86", "#a9a4f2")}
SERIES = len(LIGHT["series"])


def css_of_reader() -> str:
    """`css` of the light theme, or of the dark one where the reader's system is set to it."""
    return css(LIGHT) + "@media (prefers-color-scheme: dark){" + css(DARK) + "}"


def css(theme: dict, within: str = "") -> str:
    """Rules for the classes that charts use: s0… strokes and fills, ink and grid."""
    rules = [f"{within} .s{i}{{stroke:{c};fill:{c}}}" for i, c in enumerate(theme["series"])]
    rules += [f"{within} .ink{{fill:{theme['ink']}}}", f"{within} .soft{{fill:{theme['soft']}}}",
              f"{within} .grid{{stroke:{theme['grid']}}}", f"{within} .axis{{stroke:{theme['soft']}}}",
              f"{within} .paper{{fill:{theme['paper']}}}"]
    rules += [f"{within} .line{{fill:none}}", f"{within} .band{{stroke:none;fill-opacity:.16}}", f"{within} .faint{{fill:none;stroke-opacity:.25}}"]
    return "\n".join(rules)
