"""The recipes of pre-training that come with the package: files of keys, by their names."""

from __future__ import annotations

from pathlib import Path

from bertwright.config import values
from bertwright.errors import ConfigError

RECIPES = Path(__file__).parents[1] / "recipes"
"""The folder of the recipes."""

LENGTHS = ("steps", "minutes", "epochs")
"""Keys of the length of a run, of which it has one: one that is given replaces that of a file."""


def recipe_file(name: str) -> str:
    """Return the path of a file of keys, or of the recipe that a name without a folder and a suffix
    stands for.

    Raises:
        ConfigError: there is neither such a file nor such a recipe.
    """
    path = Path(values.at_home(name))
    if path.name != name or path.suffix or path.exists():
        return str(path)
    recipes = {path.stem: path for path in sorted(RECIPES.glob("*.toml"))}
    if name not in recipes:
        guess = values.nearest(name, recipes)
        raise ConfigError(
            f"no configuration file {name} and no recipe of this name; "
            f"{f'did you mean {guess}? ' if guess else ''}the recipes are: {', '.join(recipes)}"
        )
    return str(recipes[name])
