"""The documentation site: `make docs` builds these pages into site/, without a network."""

import hashlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "anyseq"
sys.path.insert(0, str(HERE / "_ext"))

project = "anyseq"
author = "the authors of anyseq"
html_title = "anyseq"

extensions = ["myst_nb", "sphinx.ext.autodoc", "api", "designs", "figures", "mathml", "playground"]
exclude_patterns = ["_ext"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Notebooks are run once for each state of the library, then kept.
nb_execution_mode = "cache"
_state = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(SOURCE.rglob("*.py"))))
nb_execution_cache_path = str(HERE.parent / "build/docs/notebooks" / _state.hexdigest()[:12])
nb_execution_timeout = 120
# Kernels have a profile of their own: that of whoever builds the site must not change the outputs.
_profile = HERE.parent / "build/docs/ipython/profile_default"
_profile.mkdir(parents=True, exist_ok=True)
(_profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
os.environ["IPYTHONDIR"] = str(_profile.parent)
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_output_stderr = "remove"  # progress bars, and what libraries say of a kernel without widgets

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_math_renderer = "mathml"
pygments_style = "friendly"
pygments_dark_style = "monokai"
