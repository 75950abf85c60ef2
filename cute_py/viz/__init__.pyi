"""Public names of cute_py.viz, for type checkers; from `_HOME`."""

from cute_py.viz.picture import Cell as Cell
from cute_py.viz.picture import Grid as Grid
from cute_py.viz.picture import Picture as Picture
from cute_py.viz.build import picture_of as picture_of
from cute_py.viz.build import picture_operand as picture_operand
from cute_py.viz.cells import picture_tv as picture_tv
from cute_py.viz.text import print_copy as print_copy
from cute_py.viz.text import print_layout as print_layout
from cute_py.viz.text import print_mma as print_mma
from cute_py.viz.text import print_tv as print_tv
from cute_py.viz.text import to_text as to_text
from cute_py.viz.svg import to_svg as to_svg
from cute_py.viz.html import to_html as to_html
from cute_py.viz.latex import to_latex as to_latex
from cute_py.viz.scenes import scene as scene
from cute_py.viz.comparisons import diff as diff
from cute_py.viz.comparisons import show as show
from cute_py.viz.html import Shell as _Shell
def load_ipython_extension(shell: _Shell) -> None: ...
