"""An installed package with documentation."""

from __future__ import annotations

from pathlib import Path


def write_package(root: Path) -> None:
    words = ["alpha", "beta", "gamma", "delta"]
    for package in ("zoo", "ant"):
        for word in words:
            lines = [
                f"The {word} of {package} is a thing that {word} people like.",
                f"Every {package} has some {word} where it is {word} at night.",
                f"Nobody knows why the {word} left its {package} in the end.",
            ]
            place = root / package / f"{word}.py"
            place.parent.mkdir(exist_ok=True)
            # as paragraphs of their own, so that each is compared
            place.write_text('"""' + "\n\n".join(lines) + '"""\n', encoding="utf-8")
    (root / "zoo" / "__init__.py").write_text('"""Only one sentence is in this module."""')
    (root / "zoo" / "copied.py").write_text((root / "zoo" / "alpha.py").read_text())
    (root / "zoo" / "broken.py").write_bytes(b'def (:\n"""\xff\xfe nothing""" ( [')
    (root / "zoo" / "tests").mkdir()
    (root / "zoo" / "tests" / "more.py").write_text((root / "zoo" / "beta.py").read_text())
    (root / "test_zoo.py").write_text((root / "zoo" / "beta.py").read_text())
