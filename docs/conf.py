"""The settings of Sphinx. `make html` writes the source that it builds (`generator/write.py`)."""

from bertwright.version import __version__

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
