"""A knob's value as people and shells write it: `none`, `true`, `4`, `gpu`; and any value in a message."""

LONGEST_SHOWN = 80


def value_text(value: object) -> str:
    """The text of a value; `Knobs.parse` reads it back."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def shown(value: object, longest: int = LONGEST_SHOWN) -> str:
    """A value for a message, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes out no integer of more than 4300 digits
        return "a number too long to write out"
    return text if len(text) <= longest else f"{text[:longest]}…"
