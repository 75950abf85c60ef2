"""`parse_layout` reads what CuTe C++, CuTe DSL, pycute and this project print, or says why not."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import E, Layout, LayoutError, ParseError, Swizzle, _, make_composed_layout, sym
from cute_py.layout.bits.f2 import F2Map
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.notation.parse import parse, parse_layout
from cute_py.layout.notation.parse_tokens import MAX_NESTING, MAX_TEXT
from tests.notation import GOLDEN, golden_cases, read_text
from tests.sampling import each
from tests.strategies import (
    composed_layouts,
    int_tuples,
    layouts,
    like,
    negative_layouts,
    shapes,
    swizzles,
)

# -- round trips


@st.composite
def coordinate_layouts(draw):
    """Draw a layout with coordinate strides, scaled, negative and nested ones included."""
    paths = st.lists(st.integers(0, 3), min_size=1, max_size=3)
    basis = st.builds(lambda value, path: value * E(*path), st.integers(-9, 9), paths)
    shape = draw(shapes())
    return Layout(shape, draw(like(shape, basis)))


@st.composite
def f2_layouts(draw):
    shape = draw(int_tuples(st.sampled_from((1, 2, 4, 8))))
    size = cute.size(shape)
    count = size.bit_length() - 1
    images = draw(st.lists(st.integers(0, 63), min_size=count, max_size=count))
    return F2Layout(shape, images, draw(st.integers(0, 9)))


f2_maps = st.lists(st.integers(0, 255), max_size=11).map(F2Map)
M, N = sym("M", multiple_of=8), sym("N", min=None, max=64)
expressions = st.sampled_from(
    (
        M,
        2 * M + 1,
        M // 16,
        (M + 8) // 16,
        (M + 63) // 64,
        M % 64,
        M * M - 3 * M + 2,
        -(M // 16),
        cute.min_(M, 64),
        (M + 1) * 3,
    )
)


@st.composite
def symbolic_layouts(draw):
    shape = draw(int_tuples(st.one_of(st.integers(1, 8), st.just(M), st.just(M + 1))))
    steps = st.one_of(st.integers(-9, 9), expressions, st.just(N), st.just(M - N))
    return Layout(shape, draw(like(shape, steps)))


anything = st.one_of(
    layouts(),
    negative_layouts(),
    coordinate_layouts(),
    swizzles(),
    composed_layouts(),
    f2_maps,
    f2_layouts(),
    st.builds(make_composed_layout, f2_maps, st.integers(0, 64), negative_layouts()),
    st.builds(make_composed_layout, layouts(), st.integers(0, 64), composed_layouts()),
)


@given(anything)
def test_parse_of_str_is_the_identity(x):
    assert parse_layout(str(x)) == x


@given(anything)
def test_parse_of_repr_is_the_identity(x):
    assert parse_layout(repr(x)) == x


@given(symbolic_layouts())
def test_parse_of_str_is_the_identity_with_the_symbols_given(x):
    assert parse_layout(str(x), {"M": M, "N": N}) == x


@given(symbolic_layouts())
def test_parse_of_repr_is_the_identity_with_symbols(x):
    assert parse_layout(repr(x)) == x


def test_parse_of_str_keeps_symbolic_coordinate_strides():
    layout = Layout((4, 8), ((M + 1) * E(0), -M * E(1, 0)))
    assert parse_layout(str(layout), {"M": M}) == layout


def test_parse_keeps_integer_and_rank_1_shapes_apart():
    assert parse_layout("4:1") == Layout(4, 1) != Layout((4,), (1,)) == parse_layout("(4):(1)")
    assert parse_layout("((4)):((1))") == Layout(((4,),), ((1,),))
    assert parse_layout("():()") == Layout((), ())


@given(st.one_of(layouts(), negative_layouts(), coordinate_layouts()))
def test_static_integers_are_read_as_their_values(layout):
    static = re.sub(r"(?<![\d@])(\d+)", r"_\1", str(layout))
    assert parse_layout(static) == layout


@given(anything, st.randoms(use_true_random=False))
def test_blanks_between_tokens_mean_nothing(x, random):
    tokens = re.findall(r" o |F2|Sw|\d+x\d+|\d+|\S", str(x))
    blanks = ["", " ", "  ", "\n", "\t"]
    assert parse_layout("".join(token + random.choice(blanks) for token in tokens)) == x


# -- what others print


@pytest.mark.skipif(
    not list(GOLDEN.glob("*.json.xz")), reason="tests/golden holds no compressed data"
)
@pytest.mark.parametrize("name", ["layout_algebra", "swizzle"])
def test_golden_texts_are_read_as_by_an_independent_reader(name):
    texts = {text for case in golden_cases(name) for text in strings(case)}
    texts = {text for text in texts if re.fullmatch(r"[-\d(),:@_]+", text)}
    assert len(texts) > 500
    wrong = [text for text in texts if parse(text) != read_text(text)]
    assert wrong == []
    layouts = [text for text in texts if ":" in text]
    assert [text for text in layouts if str(parse_layout(text)) != text] == []


def strings(value):
    """Yield every string inside of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


@given(layouts(), swizzles().filter(lambda s: s.num_shft >= 0))
def test_pycute_prints_are_read(layout, swizzle):
    pycute = pytest.importorskip("pycute", reason="pycute is in nvidia-cutlass")
    theirs = pycute.Layout(layout.shape, layout.stride)
    assert parse_layout(str(theirs)) == parse_layout(repr(theirs)) == layout
    text = f"SW_{swizzle.num_bits}_{swizzle.num_base}_{swizzle.num_shft}"
    assert parse_layout(text) == swizzle
    assert parse_layout(f"{text} o 0 o {theirs}") == make_composed_layout(swizzle, 0, layout)


TILE = Layout((8, 64), (64, 1))
IDENTITY = Layout((4, 8), (E(0), E(1)))
PRINTED = [
    # cutlass include/cute: print and operator<< of layout.hpp, tuple.hpp, integral_constant.hpp
    ("(_4,_8):(_8,_1)", Layout((4, 8), (8, 1))),
    ("(4,_8):(_1,4)", Layout((4, 8), (1, 4))),
    ("((_2,_4),_8):((_1,_16),_2)", Layout(((2, 4), 8), ((1, 16), 2))),
    ("(_4,_8):(_1@0,_1@1)", IDENTITY),
    ("(_4,(_2)):(_3@1@0,(_0))", Layout((4, (2,)), (3 * E(0, 1), (0,)))),
    ("(_4,_8):(-8,_1)", Layout((4, 8), (-8, 1))),
    # swizzle.hpp, layout_composed.hpp
    ("Sw<3,4,3>", Swizzle(3, 4, 3)),
    ("Sw<3,4,-3>", Swizzle(3, 4, -3)),
    ("Sw<3,4,3> o _0 o (_8,_64):(_64,_1)", make_composed_layout(Swizzle(3, 4, 3), 0, TILE)),
    (
        "(_8):(_2) o 4 o Sw<1,0,1> o _0 o (_4):(_1)",
        make_composed_layout(
            Layout((8,), (2,)), 4, make_composed_layout(Swizzle(1, 0, 1), 0, Layout((4,), (1,)))
        ),
    ),
    # pointer_flagged.hpp: a swizzle of bytes under 16-bit elements is one of elements, M - 1
    (
        "Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)",
        make_composed_layout(Swizzle(3, 3, 3), 0, TILE),
    ),
    (
        "Sw<2,4,3> o smem_ptr[32b](unset) o (_8,_64):(_64,_1)",
        make_composed_layout(Swizzle(2, 2, 3), 0, TILE),
    ),
    # pointer_base.hpp, pointer.hpp, pointer_sparse.hpp, array_subbyte.hpp: tensors
    ("ptr[16b](0x7f123450) o (_4,_8):(_8,_1)", Layout((4, 8), (8, 1))),
    ("gmem_ptr[32b](0x7f0000000000) o (4,_8):(_8,_1)", Layout((4, 8), (8, 1))),
    ("gmem_ptr[32b]((nil)) o (4,_8):(_8,_1)", Layout((4, 8), (8, 1))),
    ("rmem_ptr[32b](0x7fff) o ((_2,_2),_1):((_1,_2),_0)", Layout(((2, 2), 1), ((1, 2), 0))),
    ("smem_[16b] o (_8,_64):(_64,_1)", TILE),
    ("raw_ptr_32b(0x7f00) o (_8,_64):(_64,_1)", TILE),
    ("subptr[4b](0x7f00.4) o (_8,_64):(_64,_1)", TILE),
    ("tmem_[32b](0x0010.0020) o (_8,_64):(_65536,_1)", Layout((8, 64), (65536, 1))),
    ("sparse<2>_gmem_ptr[16b](0x10) o (_8,_64):(_64,_1)", TILE),
    ("counting_iter(0) o (_8,_64):(_64,_1)", TILE),
    ("GMMA::DescriptorIterator o (_1,_2):(_0,_512)", Layout((1, 2), (0, 512))),
    (
        "smem_ptr[16b](0x400) o Sw<3,3,3> o _0 o (_8,_64):(_64,_1)",
        make_composed_layout(Swizzle(3, 3, 3), 0, TILE),
    ),
    ("ArithTuple(_0,0) o (_4,_8):(_1@0,_1@1)", IDENTITY),
    ("ArithTuple(_0,_0) o (_4,_8):(_1@0,_1@1):\n  (0,0)  (0,1)", IDENTITY),
    ("ptr[32b](0x10) o (_2,_2):(_1,_2):\n  1.00e+00  2.00e+00\n", Layout((2, 2), (1, 2))),
    # print_tensor.hpp print_layout
    (
        "(_2,_2):(_2,_1)\n       0   1 \n    +---+---+\n 0  | 0 | 1 |\n    +---+---+\n",
        Layout((2, 2), (2, 1)),
    ),
    # CuTe DSL: documentation (framework_integration, dsl_dynamic_layout), notebooks/tensor.ipynb
    ("S<3,4,3> o 0 o (8,64):(64,1)", make_composed_layout(Swizzle(3, 4, 3), 0, TILE)),
    ("tensor<ptr<f32, generic> o (8,64):(64,1)>", TILE),
    ("ptr<f32, generic> o (8,64):(64,1)", TILE),
    ("tensor<ptr<f16, gmem, align<16>> o (8,64):(64,1)>", TILE),
    ("tensor<(0,0) o (4,8):(1@0,1@1)>", IDENTITY),
    (
        "tensor(raw_ptr(0x000000000736b0c0: f32, generic, align<4>) o (8,64):(64,1), data=\n"
        "       [[ 1.000000,  1.000000, ],",
        TILE,
    ),
    (
        "raw_ptr(0x00000000079e5100: i16, generic, align<2>) o (3):(1) =\n( 1, 2, 3 )",
        Layout((3,), (1,)),
    ),
    (
        "tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>",
        make_composed_layout(Swizzle(3, 3, 3), 0, TILE),
    ),
    # its intermediate code
    ('!cute.memref<f32, gmem, align<16>, "(8,64):(64,1)">', TILE),
    ('!cute.coord_tensor<"(0,0)", "(4,8):(1@0,1@1)">', IDENTITY),
    (
        '!cute.memref<f8E4M3FN, smem, align<1024>, S<3,4,3>, "(8,64):(64,1)">',
        make_composed_layout(Swizzle(3, 4, 3), 0, TILE),
    ),
    # C++ types, as written and as compilers print them
    ("Layout<Shape<_4,_8>, Stride<_8,_1>>", Layout((4, 8), (8, 1))),
    ("Layout<Shape<_4,_8>>{}", Layout((4, 8))),
    ("Layout<_4, _2>", Layout(4, 2)),
    ("Layout<tuple<C<4>,C<8>>,tuple<C<8>,C<1>>>", Layout((4, 8), (8, 1))),
    (
        "struct cute::Layout<cute::tuple<cute::C<(int)4>, cute::tuple<cute::C<8ul> > >, "
        "cute::tuple<cute::ScaledBasis<cute::C<(int)1>, (int)1>, cute::tuple<cute::E<0, 2>>>>",
        Layout((4, (8,)), (E(1), (E(0, 2),))),
    ),
    (
        "Layout<Shape<Int<4>, integral_constant<int, 8>>, Stride<constant<int, -8>, C<1>>>",
        Layout((4, 8), (-8, 1)),
    ),
    (
        "cute::ComposedLayout<cute::Swizzle<3, 4, 3>, cute::smem_ptr_flag_bits<16>, "
        "cute::Layout<cute::tuple<cute::C<8>, cute::C<64>>, cute::tuple<cute::C<64>, cute::C<1>>>>",
        make_composed_layout(Swizzle(3, 3, 3), 0, TILE),
    ),
    (
        "ComposedLayout<Swizzle<3,3>, C<5>, Layout<Shape<_8,_64>, Stride<_64,_1>>>",
        make_composed_layout(Swizzle(3, 3, 3), 5, TILE),
    ),
    # papers
    ("Sw<3,3,3> ∘ (8,64):(64,1)", make_composed_layout(Swizzle(3, 3, 3), 0, TILE)),
]


@each(PRINTED)
def test_print_is_read(text, layout):
    assert parse_layout(text) == layout


def spelled(x, scale="C<{}>"):
    """Return the C++ type of an int tuple."""
    if isinstance(x, tuple):
        return f"cute::tuple<{', '.join(spelled(part, scale) for part in x)}>"
    return scale.format(x)


@given(negative_layouts(), st.sampled_from(("C<{}>", "cute::C<(int){}>", "Int<{}>", "C<{}l>")))
def test_type_of_a_layout_is_read_as_the_layout(layout, scale):
    shape, stride = spelled(layout.shape, scale), spelled(layout.stride, scale)
    assert parse_layout(f"cute::Layout<{shape}, {stride}>") == layout


# -- swizzled pointers: bytes and elements


@given(
    swizzles().filter(lambda s: s.num_base >= 2 and s.num_bits),
    layouts(max_size=64),
    st.integers(0, 4096),
    st.sampled_from((8, 16, 32)),
)
def test_swizzled_pointer_gives_the_elements_at_the_swizzled_byte_addresses(
    swizzle, layout, element, bits
):
    size = bits // 8
    address = element * size
    parsed = parse_layout(f"{swizzle}_smem_ptr[{bits}b]({address:#x}) o {layout}")
    base = address - address % swizzle.period
    for index in range(layout.size()):
        assert base + size * parsed(index) == swizzle(address + size * layout(index))


def test_swizzled_pointer_to_half_bytes_counts_half_bytes():
    parsed = parse_layout("Sw<2,4,3>_smem_subptr[4b](0x100.4) o (_64):(_1)")
    for index in range(64):
        byte, half = divmod(2 * 0x100 + 1 + index, 2)
        assert parsed(index) == 2 * Swizzle(2, 4, 3)(byte) + half


@pytest.mark.parametrize(
    "pointer",
    [
        "Sw<3,4,3>_smem_ptr[16b](SMEM_ADDR_A)",
        "ptr<f16, smem, align<16>, S<3,4,3>>",
        "ptr<f16, smem, S<3,4,3>>",
        "Sw<3,4,3>_smem_ptr[32b](0x401)",
    ],
)
def test_swizzled_pointer_of_unknown_address_is_refused(pointer):
    with pytest.raises(ParseError, match="whose distance from a multiple of 1024 bytes") as raised:
        parse_layout(f"{pointer} o (_8,_64):(_64,_1)")
    assert raised.value.code == "text-pointer-address"


@pytest.mark.parametrize(
    "text",
    [
        "Sw<3,4,3>_smem_ptr(0x400) o (_8,_64):(_64,_1)",
        "Sw<3,4,3> o smem_sparse<2>_ptr[16b](unset) o (_8,_64):(_64,_1)",
    ],
)
def test_swizzled_pointer_of_unknown_width_is_refused(text):
    with pytest.raises(ParseError, match="does not give the width of its elements") as raised:
        parse_layout(text)
    assert raised.value.code == "text-pointer-width"


# -- dynamic integers


def test_each_dynamic_integer_is_a_symbol_of_its_own():
    layout = parse_layout("(?,?{div=64},?{i64}):(?{i64 div=8},1,?)")
    assert layout.shape == (sym("s0"), sym("s1", multiple_of=64), sym("s2"))
    assert layout.stride == (sym("s3", multiple_of=8, min=0), 1, sym("s4", min=0))


def test_dynamic_symbols_avoid_the_given_names():
    layout = parse_layout("(s0,?):(?@0,1@1)", {"s0": M, "s2": N})
    assert str(layout) == "(M,s1):(s3@0,1@1)"


def test_dynamic_offset_may_be_zero():
    composed = parse_layout("S<3,4,3> o ?{div=16} o (?,8):(8,1)")
    assert composed.offset == sym("s0", multiple_of=16, min=0)
    assert composed.inner.shape == (sym("s1"), 8)


def test_dynamic_types_are_symbols():
    layout = parse_layout("Layout<Shape<int, _8>, Stride<long long, int64_t>>")
    assert layout.shape == (sym("s0"), 8)
    assert layout.stride == (sym("s1", min=0), sym("s2", min=0))


# -- int tuples, coordinates and tilers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("(2,(3,_4))", (2, (3, 4))),
        ("(_,(3,_))", (_, (3, _))),
        ("(4:1,8:1)", (Layout(4, 1), Layout(8, 1))),
        ("<4:1, _>", (Layout(4, 1), _)),
        ("[(4,32):(32,1);128:1]", (Layout((4, 32), (32, 1)), Layout(128, 1))),
        ("(_4:_1,_8)", (Layout(4, 1), 8)),
        ("()", ()),
        ("(2+3*4,(2+3)*4,7//2,-7%4,-(2))", (14, 20, 3, 1, -2)),
    ],
)
def test_parse_reads_tuples_and_tilers(text, value):
    assert parse(text) == value


# -- refusals


UNEXPECTED = [
    ("", 0, "the end of the text at position 0; required: a number, a tuple or a layout"),
    ("4:", 2, "a number, a tuple or a layout"),
    ("(4,8)", 5, "':' and a stride"),
    ("(4:1,8:1)", 0, "one layout"),
    ("(4,8)):(8,1)", 5, "')' at position 5; required: the end of the text"),
    ("(4,8]:(8,1)", 4, "']' at position 4; required: ',' or ')'"),
    ("(4 8):(8,1)", 3, "'8' at position 3; required: ',' or ')'"),
    ("(4,_):(8,1)", 5, "integers, nested alike, on both sides of ':'"),
    ("4:1:2", 3, "the end of the text"),
    ("4:1@", 4, "the number of a mode"),
    ("4:(1,2)@0", 7, "an integer before '@'"),
    ("4:-(1,2)", 2, "a number after it"),
    ("4:8//0", 3, "a divisor other than 0"),
    ("(4,8)*2:1", 5, "integers on both sides of '*'"),
    ("Sw<3,4>", 6, "','"),
    ("SW_3_4", 0, "SW_ and three numbers"),
    ("(4):F2[2x2: 1,3]", 6, "the images of the bits"),
    ("Sw<3,4,3> o", 11, "a number, a tuple or a layout"),
    ("Sw<3,4,3> o 0 o 5", 14, "a layout after it"),
    ("(4):(1) o (4):(1)", 8, "an offset: outer o offset o layout"),
    ("4:1 o smem_ptr[16b](unset) o 4:1", 6, "a swizzle before a pointer"),
    ("ptr[16b](0x10)", 14, "'o' and a layout"),
    ("composition(4:1,2)", 0, "a layout, or one of the calls Layout, ComposedLayout"),
    ("cute::Tensor<int>", 6, "Layout, ComposedLayout, Swizzle, tuple"),
    ("Layout<Shape<_4>,Stride<_1>,int>", 0, "1 to 2 arguments of Layout"),
    ("(4,8):(8,1)\n(3):(1)", 12, "the end of the text"),
    ("(4,8):(8,1) # row major", 12, "'#' at position 12; required: the end of the text"),
    ("!cute.layout", 12, "'<'"),
    ("'M':1", 3, "integers, nested alike"),
    ("'M'", 3, "'o' and a layout"),
]


@each(UNEXPECTED)
def test_unexpected_text_is_refused_with_position_and_expectation(text, position, words):
    with pytest.raises(ParseError, match=re.escape(words)) as raised:
        parse_layout(text)
    assert raised.value.code == "text-unexpected"
    assert raised.value.facts["position"] == position


def test_refusal_marks_the_place_below_the_text():
    with pytest.raises(ParseError) as raised:
        parse_layout("(4,8):(8;1)")
    first, *marked = str(raised.value).splitlines()
    assert first.startswith(
        "parse_layout: given ';' at position 8; required: ',' or ')'; fix: correct"
    )
    assert marked == ["    (4,8):(8;1)", "            ^"]


def test_refusal_shows_the_neighbourhood_of_a_long_text():
    text = f"({','.join(['8'] * 200)}):({','.join(['1'] * 100)};{','.join(['1'] * 100)})"
    with pytest.raises(ParseError) as raised:
        parse_layout(text)
    _, line, mark = str(raised.value).splitlines()
    assert line.startswith("    ...")
    assert line.endswith("...")
    assert line[mark.index("^")] == ";"


def test_unclosed_bracket_is_refused_with_its_place():
    with pytest.raises(ParseError, match=r"inside the '\(' at position 6; .*close") as raised:
        parse_layout("(4,8):(8,1")
    assert raised.value.code == "text-unclosed"
    assert raised.value.facts["position"] == 10


def test_unknown_name_is_refused_with_the_way_to_declare_it():
    with pytest.raises(ParseError, match=r"symbols=\{'M': sym\('M'\)\}") as raised:
        parse_layout("(M,8):(8,1)")
    assert raised.value.code == "text-symbol"
    assert raised.value.facts["position"] == 1
    with pytest.raises(ParseError, match="remove a label that is not part of the layout"):
        parse_layout("sA: (4,8):(8,1)")


def test_arguments_that_do_not_fit_are_refused_with_the_parameters():
    with pytest.raises(ParseError, match=r"required: Layout\(shape, stride=None\)") as raised:
        parse_layout("Layout(1, 2, 3)")
    assert raised.value.code == "text-arguments"


def test_operands_of_the_wrong_kind_are_refused_at_the_call():
    with pytest.raises(
        ParseError, match=r"min at position 7 applied to \(\); required: .* min\("
    ) as raised:
        parse_layout("Layout(min(), 2)")
    assert raised.value.code == "text-operands"


def test_text_that_reads_as_no_layout_is_refused_by_the_layout():
    with pytest.raises(LayoutError, match="required: shape and stride of the same profile"):
        parse_layout("(4,8):1")
    with pytest.raises(LayoutError, match="required: extents of at least 1"):
        parse_layout("(4,0):(1,1)")


@pytest.mark.parametrize("value", [b"4:1", 4, None, Layout(4, 1)])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(cute.LeafTypeError, match="pass a str; decode bytes") as raised:
        parse_layout(value)
    assert raised.value.code == "text-type"


def test_symbols_must_be_integers():
    with pytest.raises(cute.LeafTypeError, match="integers"):
        parse_layout("(M):(1)", {"M": 1.5})


# -- limits


def nested(level):
    return f"{'(' * level}4{')' * level}:{'(' * level}1{')' * level}"


def test_64_levels_are_read_and_one_more_is_refused():
    assert cute.depth(parse_layout(nested(64)).shape) == 64
    assert parse_layout(repr(parse_layout(nested(64)))) == parse_layout(nested(64))
    with pytest.raises(LayoutError, match="tuples nested deeper than 64 levels"):
        parse_layout(nested(65))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 60_000,
        "[<" * 30_000,
        nested(MAX_NESTING + 1),
        "Layout<Shape<" * 4_000,
        "Layout(" * 8_000,
        "ptr[" * 10_000,
        "tensor<" * 9_000,
        '!cute.layout<"' * 4_000,
        "4:1" + "@0" * 30_000,
        "4:1 o 0 o " * 6_000 + "4:1",
    ],
    ids=lambda text: text[:12],
)
def test_deep_nests_are_refused_where_they_get_too_deep(text):
    with pytest.raises(
        ParseError, match=r"tuples nested deeper than \d+ levels at position"
    ) as raised:
        parse_layout(text)
    assert raised.value.code == "text-too-deep"
    assert raised.value.facts["position"] < len(text)


def test_long_texts_are_refused():
    assert parse_layout("4:1" + " " * (MAX_TEXT - 3)) == Layout(4, 1)
    with pytest.raises(ParseError, match=f"required: at most {MAX_TEXT}") as raised:
        parse_layout("4:1" + " " * MAX_TEXT)
    assert raised.value.code == "text-too-long"


def test_long_chains_of_signs_are_read():
    assert parse_layout("4:" + "-" * 60_000 + "1") == Layout(4, 1)
    assert parse("1" + "+1" * 30_000) == 30_001


def test_long_numbers_are_refused():
    assert parse("9" * 600) == 10**600 - 1
    with pytest.raises(ParseError, match="required: at most 600 digits") as raised:
        parse_layout(f"{'9' * 5_000}:1")
    assert raised.value.code == "text-number"
    with pytest.raises(ParseError, match="is not defined"):
        parse_layout(f"_{'9' * 5_000}:1")


def test_symbolic_products_are_kept_short():
    factors = "*".join(f"(sym('x{i}')+1)" for i in range(40))
    with pytest.raises(ParseError, match="a sum of at most 256 terms"):
        parse_layout(f"4:{factors}")


# -- any text


def outcome(text):
    """Return (layout, None), or (None, the refusal)."""
    try:
        return parse_layout(text), None
    except cute.CuteError as error:
        return None, error


PIECES = st.sampled_from(
    [
        *"()[]<>{},:;@-+*%?_=.!^'\"o#",
        *("_8", "0", "1", "64", "0x1f", "//", "::", " o ", "\n", "E(0)", "sym('M')", "M", "div"),
        *("Sw<3,4,3>", "S<", "SW_1_0_1", "F2", "F2[2x2: 1,3]", "Layout", "Swizzle", "ScaledBasis"),
        *("ptr[16b](0x10)", "smem_ptr[16b](unset)", "tensor", "tuple<", "C<4>", "int", "None"),
        *("(4,8):(8,1)", "Sw<2,0,3> o 0 o 8:1", "min", "ceil_div", "²", "٣", "é", "\x00"),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_read_or_refused_with_a_position(text):
    value, error = outcome(text)
    if isinstance(error, ParseError):
        assert 0 <= error.facts["position"] <= len(text)
    else:
        assert callable(value) if error is None else error.code


@given(anything, st.data())
def test_a_broken_print_is_read_or_refused(x, data):
    text = str(x)
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 3)))
    broken = text[:at] + data.draw(PIECES) + text[until:]
    assume(broken != text)
    value, error = outcome(broken)
    assert parse_layout(repr(value)) == value if error is None else error.code
