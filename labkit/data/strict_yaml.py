"""YAML that a person wrote, read so that nothing is lost in silence."""

from collections.abc import Hashable
from typing import Any

import yaml


def load_strict(text: str) -> Any:
    """What the text says. Raises yaml.YAMLError, also for a table that has a key twice, of which plain YAML keeps the last."""
    return yaml.load(text, _NoTwins)


class _NoTwins(yaml.SafeLoader):
    """Refuses a table that has a key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.YAMLError(f"the key {twice!r} is there twice, in the table of line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)
