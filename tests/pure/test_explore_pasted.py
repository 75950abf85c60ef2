"""What is pasted into the explorer: whatever is printed is read back, and offsets find a layout."""

import re
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import LayoutError, atoms
from cute_py.atoms import registry
from cute_py.explore import answer
from cute_py.explore.operands import value_of
from cute_py.explore.pasted import pasted
from cute_py.layout.notation.parse import parse_layout
from cute_py.viz.cells import picture_tv
from tests.notation import golden_cases, read_text
from tests.sampling import fewer
from tests.strategies import composed_layouts, layouts, negative_layouts, swizzles

# -- CuTe's print functions, after include/cute/util/print_tensor.hpp and print_latex.hpp


def static(text):
    """Return a layout as CuTe prints one of compile-time constants."""
    outer, sign, inner = text.rpartition(" o ")
    return outer + sign + re.sub(r"(?<![\d@])(\d+)", r"_\1", inner)


def cpp_table(layout, title):
    m, n = map(cute.size, layout.shape)
    width = len(str(max(0, *(layout(i) for i in range(m * n))) + 1)) + 2
    rule = "    " + ("+" + "-" * width) * n + "+"
    lines = [title] if title else []
    lines.append("    " + "".join(f"  {j:>{width - 2}} " for j in range(n)))
    for i in range(m):
        cells = "".join(f"| {layout((i, j)):>{width - 2}} " for j in range(n))
        lines += [rule, f"{i:2d}  {cells}|"]
    return "\n".join([*lines, rule, ""])


HEAD = r"""\documentclass[convert]{standalone}
\usepackage{tikz}

\begin{document}
\begin{tikzpicture}[x={(0cm,-1cm)},y={(1cm,0cm)},every node/.style={minimum size=1cm}]

"""
FOOT = "\\end{tikzpicture}\n\\end{document}\n"


def grid(cells, m0, n0, m, n):
    """Return the nodes of (row, column, text), the grid around them and its labels."""
    lines = [rf"\node[fill=black!00] at ({i + m0},{j + n0}) {{{text}}};" for i, j, text in cells]
    lines.append(
        r"\draw[color=black,thick,shift={(-0.5,-0.5)}] "
        f"({m0},{n0}) grid ({m0 + m},{n0 + n});\n"
    )
    lines += [rf"\node at ({i + m0},{n0 - 1}) {{\Large{{\texttt{{{i}}}}}}};" for i in range(m)]
    lines += [rf"\node at ({m0 - 1},{j + n0}) {{\Large{{\texttt{{{j}}}}}}};" for j in range(n)]
    return "\n".join(lines) + "\n"


def cpp_latex(layout, title):
    m, n = map(cute.size, layout.shape)
    cells = [(i, j, layout((i, j))) for i in range(m) for j in range(n)]
    return (f"% Layout: {title}\n" if title else "") + HEAD + grid(cells, 0, 0, m, n) + FOOT


def tv_cells(tv, rows):
    """Return the cells of a thread-value layout over a tile, as print_latex_tv lists them."""
    found = {}
    for t, v in product(*map(range, map(cute.size, tv.shape))):
        found.setdefault(divmod(tv((t, v)), rows)[::-1], rf"\shortstack{{T{t} \\ V{v}}}")
    return [(*place, text) for place, text in found.items()]


# -- what is printed is read back


def offsets(layout):
    return [layout(i) for i in range(layout.size())]


@given(st.one_of(negative_layouts(), composed_layouts(), swizzles()))
def test_what_this_library_prints_is_read_back(x):
    assert pasted(str(x)) == str(x)
    if isinstance(x, cute.Swizzle):
        assume(x.period <= 256)
    else:
        assume(x.size() <= 128)
        assume(cute.rank(x.shape) < 5)
    printed = str(cute.to_text(x))
    assert pasted(printed) == str(x)
    assert pasted(f"\n{printed}\n") == str(x)
    assert pasted(cute.to_latex(x)) == str(x)
    assert parse_layout(printed) == x


@given(st.one_of(negative_layouts(max_size=128), composed_layouts()))
def test_a_table_without_a_title_is_searched(x):
    assume(cute.rank(x.shape) < 5)
    assume(x.size() <= 128)
    title, table = str(cute.to_text(x)).split("\n", 1)
    assert title == str(x)
    found = value_of(pasted(table))
    assert offsets(found) == offsets(x)
    if cute.rank(x.shape) > 1:
        assert cute.product_each(found.shape) == cute.product_each(x.shape)


matrices = st.one_of(layouts(max_size=128), composed_layouts()).filter(
    lambda x: cute.rank(x.shape) == 2 and x.size() <= 128 and min(offsets(x)) >= 0
)


@fewer(2)
@given(matrices)
def test_what_cute_prints_is_read_back(x):
    title = static(str(x))
    assert parse_layout(title) == x
    for printed in (cpp_table, cpp_latex):
        assert pasted(printed(x, title)) == str(x)
        assert offsets(value_of(pasted(printed(x, "")))) == offsets(x)


def test_golden_layouts_of_cute_are_read_from_its_tables():
    texts = {
        text
        for case in golden_cases("layout_algebra")
        for text in (case["result"], *case["args"])
        if isinstance(text, str) and re.fullmatch(r"\(.*\):\([-\d(),]+\)", text)
    }
    found = [(text, read_text(text)) for text in sorted(texts)]
    tables = [(t, x) for t, x in found if cute.rank(x.shape) == 2 and x.size() <= 64][::20]
    assert len(tables) > 25
    for text, layout in tables:
        assert pasted(cpp_table(layout, static(text))) == text
        assert offsets(value_of(pasted(cpp_latex(layout, "")))) == offsets(layout)


@pytest.mark.parametrize("name", ["SM80_16x8x8_F32F16F16F32_TN", "SM75_8x8x16_S32S8S8S32_TN"])
def test_maps_of_threads_and_values_are_read_back(name):
    mma = cute.make_tiled_mma(name)
    m, n, k = (mma.tile_size(mode) for mode in range(3))
    parts = []
    for place, tv, (rows, columns) in (
        ((0, 0), mma.get_layoutC_TV(), (m, n)),
        ((0, -k - 1), mma.get_layoutA_TV(), (m, k)),
    ):
        parts.append(grid(tv_cells(tv, rows), *place, rows, columns))
        alone = value_of(pasted(f"% Layout TV: {tv}\n{HEAD}{parts[-1]}{FOOT}"))
        assert alone.tile == (rows, columns)
        assert offsets(alone.tv) == offsets(tv)
        assert value_of(pasted(str(cute.to_text(picture_tv(tv, (rows, columns)))))).tv == tv
    both = value_of(pasted(f"% LayoutC: ...\n{HEAD}{''.join(parts)}{FOOT}"))
    assert [each.tile for each in both] == [(m, n), (m, k)]


def test_prints_of_cute_dsl_and_labels_are_read():
    for text, wanted in (
        (
            "tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>",
            "Sw<3,3,3> o 0 o (8,64):(64,1)",
        ),
        ("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ("tCsA : smem_ptr[16b](0x7f00) o ((_2,_4),_8):((_1,_16),_2)", "((2,4),8):((1,16),2)"),
        ("layout = (4,8):(8,1)\n", "(4,8):(8,1)"),
        ("Layout((4, 8), (8, 1))", "(4,8):(8,1)"),
        ("(?,8):(8,1)", "(?,8):(8,1)"),
    ):
        assert pasted(text) == wanted
        assert "value" in answer({"v": 1, "e": wanted})


@pytest.mark.parametrize(
    "text",
    [
        "composition((4,8):(8,1), (2,2):(1,2))",
        "(4,8)",
        "(M,8):(8,1)",
        "size((2,3))",
        "4",
        "nothing",
        "",
    ],
)
def test_expressions_stay_as_they_are(text):
    assert pasted(text) == text


def test_names_of_instructions_are_calls_that_draw_them():
    for name in registry.names()[::60]:
        assert pasted(f"MMA_Atom<cute::{name}>") == pasted(name) == f"mma({name})"
    for op in registry.copy_rows()[::5]:
        assert value_of(pasted(f"cute::{op}")).op == op
    gmma = "struct cute::SM90_64x64x16_F32F16F16_SS<cute::SM90::GMMA::Major::K, (GMMA::Major)1>"
    assert pasted(gmma.replace("(GMMA::Major)1", "GMMA::Major::MN")) == (
        "mma(SM90_64x64x16_F32F16F16_SS<K,MN>)"
    )
    assert pasted("Copy_Atom<UniversalCopy<cute::uint128_t>, cute::half_t>") == (
        "copy(UniversalCopy<128>,bits=16)"
    )
    assert atoms.get("SM61_DP4A") == value_of(pasted("SM61_DP4A")).atom


# -- the search: which layout has these offsets


@given(
    st.one_of(negative_layouts(max_size=64), composed_layouts()),
    st.sampled_from((" ", ",", ", ", "\t")),
)
def test_offsets_find_their_layout(x, sign):
    table = offsets(x)
    for text in (sign.join(map(str, table)), str(table), str(tuple(table)) if table[1:] else "[0]"):
        found = answer({"v": 1, "find": text})
        assert offsets(value_of(found["e"])) == (table if text != "[0]" else [0])


@fewer(2)
@given(matrices)
def test_rows_of_offsets_find_a_layout_of_rows_and_columns(x):
    m, n = map(cute.size, x.shape)
    assume(m > 1)
    rows = [[x((i, j)) for j in range(n)] for i in range(m)]
    text = "\n".join(" ".join(map(str, row)) for row in rows)
    for given_ in (text, str(rows), str(rows).replace(", ", " "), f"array({rows})"):
        found = value_of(answer({"v": 1, "read": given_})["e"])
        assert [[found((i, j)) for j in range(n)] for i in range(m)] == rows


@given(layouts(max_size=64), st.data())
def test_what_no_layout_has_is_refused_at_the_first_offset_that_departs(x, data):
    table = offsets(x)
    at = data.draw(st.integers(0, len(table) - 1))
    table[at] += data.draw(st.integers(1, 9))
    asked = answer({"v": 1, "find": str(table)})
    if "e" in asked:
        assert offsets(value_of(asked["e"])) == table
        return
    with pytest.raises(LayoutError) as raised:
        pasted(str(table), offsets=True)
    assert raised.value.code == "fit-no-form"
    facts = raised.value.facts
    origin, _, rest = str(facts["layout"]).rpartition(" + ")
    layout, index = parse_layout(rest), facts["index"]
    fitted = [int(origin or 0) + cute.crd2idx(i, layout.shape, layout.stride) for i in range(index)]
    assert fitted == table[:index]
    assert facts["got"] == table[index] != facts["fitted"]
    words = f"up to index {index}, where the table has {table[index]}"
    assert words in asked["error"]["given"]
    for repair in asked["error"]["repairs"]:
        assert "value" in answer({"v": 1, "e": repair})


def test_a_table_that_contradicts_its_title_is_refused():
    table = str(cute.to_text(cute.Layout((4, 8), (8, 1))))
    for changed in (table.replace("  9", " 77"), cpp_table(cute.Layout((2, 2)), "(_2,_2):(_2,_1)")):
        with pytest.raises(LayoutError, match="which has") as raised:
            pasted(changed)
        assert raised.value.code == "table-title"
        with pytest.raises(LayoutError):
            parse_layout(changed)
    assert answer({"v": 1, "read": changed})["error"]["code"] == "table-title"


@fewer(2)
@given(st.text(alphabet="0123456789 -+|,()[]\n_Tv:oSw<>%\\node{}", max_size=60))
def test_no_text_raises(text):
    for kind in ("read", "find"):
        found = answer({"v": 1, kind: text})
        assert ("error" in found) or isinstance(found.get("e", found.get("value")), str)
        assert found.get("error", {}).get("code") != "explore-limit", text


@pytest.mark.parametrize("row", [x for x in cute.DTYPES if x.bits], ids=str)
def test_a_copy_atom_of_cpp_has_the_bits_of_its_type(row):
    for name in (row.cutlass_name, f"cutlass::{row.cutlass_name}"):
        text = f"Copy_Atom<cute::SM75_U32x4_LDSM_N, {name}>"
        assert pasted(text) == f"copy(SM75_U32x4_LDSM_N,bits={row.bits})"


def test_a_copy_atom_of_an_unknown_type_is_no_other_copy():
    assert pasted("Copy_Atom<SM75_U32x4_LDSM_N,unsigned char>").endswith(",bits=8)")
    for kind in ("float_e3m4_t", "my_type32"):
        text = f"Copy_Atom<SM75_U32x4_LDSM_N,{kind}>"
        assert pasted(text) == text
