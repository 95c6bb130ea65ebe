"""Without a browser these tests are skipped with the reason; where a browser is required, that is a failure."""

from pathlib import Path

import pytest

from tests.browser import equipment


@pytest.mark.parametrize(
    ("asked", "outcome", "words"),
    [
        ("", pytest.skip.Exception, "^no Chromium here$"),
        ("required", pytest.fail.Exception, "^LABKIT_BROWSER=required, but no Chromium here$"),
        ("yes", pytest.fail.Exception, "LABKIT_BROWSER='yes'; allowed: required, or unset"),
    ],
)
def test_what_is_missing_skips_a_test_or_fails_it(
    monkeypatch: pytest.MonkeyPatch, asked: str, outcome: type[BaseException], words: str
) -> None:
    monkeypatch.setenv("LABKIT_BROWSER", asked)
    with pytest.raises(outcome, match=words):
        equipment.need("no Chromium here")


def test_a_chromium_that_is_not_there_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    monkeypatch.setattr(equipment, "CHROMIUM", tmp_path / "chromium")
    assert equipment.missing_browser() == (
        f"no Chromium at {tmp_path}/chromium: apt-get install chromium, or name one in $CHROMIUM"
    )
