"""One truth about dependencies: ranges in pyproject.toml, pins in constraints.txt, and environment.yml agrees."""

import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split(";")[0].strip().split("==") for line in lines if line.strip() and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for group in [PROJECT["dependencies"], *extras] for text in group]


def test_every_dependency_is_pinned_inside_its_range() -> None:
    for requirement in requirements():
        version = pins().get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not pinned in constraints.txt"
        assert requirement.specifier.contains(version), f"{requirement} does not admit {version}"


def test_versions_are_pinned_nowhere_else() -> None:
    assert not any("==" in str(requirement) for requirement in requirements())
    assert "==" not in (ROOT / "environment.yml").read_text()
    assert "==" not in (ROOT / "Makefile").read_text()


def test_environment_yml_agrees_with_pyproject() -> None:
    python = next(part for part in ENVIRONMENT["dependencies"] if isinstance(part, str) and part.startswith("python "))
    assert python.split()[1] == PROJECT["requires-python"]
    pip = next(part["pip"] for part in ENVIRONMENT["dependencies"] if isinstance(part, dict))
    assert pip == ["--constraint constraints.txt", "--editable .[test]"]


def test_torch_2_11_is_inside_the_range() -> None:
    torch = next(requirement for requirement in requirements() if requirement.name == "torch")
    assert torch.specifier.contains("2.11.0")


def test_the_set_up_names_no_web_address() -> None:
    for name in ("constraints.txt", "pyproject.toml", "environment.yml", "Makefile", "README.md", ".ci/run"):
        text = (ROOT / name).read_text()
        assert "http://" not in text
        assert "https://" not in text
