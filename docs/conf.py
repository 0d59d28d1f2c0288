"""The settings of Sphinx. `make html` writes the source that it builds (`generator/write.py`)."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

from bertwright.version import __version__

logger = logging.getLogger(__name__)
project = "Bertwright"
author = "The Bertwright authors"
project_copyright = author
version = release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4  # the anchors that GitHub gives, to which pages link
python_maximum_signature_line_length = 80
add_module_names = False

html_theme = "furo"
html_title = "Bertwright"
html_copy_source = False
html_show_sourcelink = False
highlight_language = "none"  # of fences that name no language
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"  # MathJax would be loaded from elsewhere
UNKNOWN = {r"\dots": r"\ldots", r"\big": "", r"\texttt": r"\text"}
"""Commands of LaTeX that the renderer lacks -> what stands for them."""


def write_formula(writer: Any, node: nodes.Node) -> None:
    """Write a formula of a notebook as MathML, which browsers draw by themselves."""
    formula = re.sub(r"\\[a-z]+", lambda found: UNKNOWN.get(found[0], found[0]), node.astext())
    try:
        writer.body.append(tex2mathml(formula, as_block=isinstance(node, nodes.math_block)))
    except MathError as error:
        logger.warning("%s", error, location=node)
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Add the renderer of formulas."""
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
