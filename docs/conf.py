# SPDX-License-Identifier: Apache-2.0
"""The site of `make docs`: tools/site stages the sources and calls Sphinx."""

project = "pto-runtime"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "pto-runtime"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["static"]
html_css_files = ["site.css"]
highlight_language = "none"
