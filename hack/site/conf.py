"""Sphinx reads this beside the pages that build.py lays out."""

project = "docket"
author = "the docket maintainers"
html_title = "docket"
root_doc = "index"

extensions = ["myst_parser"]
myst_heading_anchors = 6
myst_enable_extensions = []
suppress_warnings = [
    "myst.header",  # a part of a page may begin below the second level
    "misc.highlighting_failure",  # blocks with … in them
]
highlight_language = "none"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["docket.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "footer_icons": [
        {"name": "Repository", "url": "https://github.com/docket-export/docket", "html": "Repository", "class": ""},
    ],
}
