"""A knob's value as people and shells write it: `none`, `true`, `4`, `gpu`."""


def value_text(value: object) -> str:
    """The text of a value; `Knobs.parse` reads it back."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
