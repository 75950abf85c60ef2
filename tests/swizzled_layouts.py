"""Random swizzled layouts of powers of two, and brute force for what the algebra says of them."""

import random

import cute_py as cute
from cute_py import ComposedLayout, F2Map, Layout, Swizzle


def seeded(name, seed):
    return random.Random(f"{name} {seed}")


def nested(draw, parts):
    """Nest two lists of leaves alike, at random."""
    shape, stride = (list(part) for part in parts)
    while len(shape) > 1 and draw.random() < 0.4:
        first = draw.randrange(len(shape) - 1)
        last = draw.randrange(first + 1, len(shape))
        for part in (shape, stride):
            part[first : last + 1] = [tuple(part[first : last + 1])]
    if len(shape) == 1 and draw.random() < 0.7:
        return shape[0], stride[0]
    return tuple(shape), tuple(stride)


def layout(draw, most=64):
    """Draw a layout of powers of two: compact, with gaps, broadcasts or overlaps."""
    extents = [1 << draw.choice((0, 1, 1, 2, 2, 3)) for _ in range(draw.randint(1, 5))]
    while cute.product(tuple(extents)) > most:
        extents[draw.randrange(len(extents))] = 1
    kind = draw.choice(("compact", "compact", "gaps", "broadcast", "any"))
    steps, filled = [0] * len(extents), 1
    for k in draw.sample(range(len(extents)), len(extents)):
        filled <<= draw.choice((0, 0, 1, 2)) if kind == "gaps" else 0
        steps[k] = 0 if kind == "broadcast" and draw.random() < 0.4 else filled
        filled *= extents[k] if steps[k] else 1
    if kind == "any":
        steps = [draw.choice((0, 1, 2, 3, 4, 6, 8, 16, 32)) for _ in extents]
    steps = [draw.choice((0, d, d)) if s == 1 else d for s, d in zip(extents, steps, strict=True)]
    return Layout(*nested(draw, (extents, steps)))


def outer(draw):
    """Draw a swizzle of either sign, now and then another map."""
    if draw.random() < 0.1:
        return F2Map([draw.randrange(16) for _ in range(draw.randint(1, 4))])
    bits, base = draw.choice((0, 1, 1, 2, 2, 3)), draw.choice((0, 0, 1, 2, 3))
    shift = bits + draw.choice((0, 0, 1, 2))
    return Swizzle(bits, base, draw.choice((shift, shift, -shift)))


def swizzled(draw):
    """Draw map o offset o layout."""
    offset = draw.choice((0, 0, 0, draw.randrange(9), 1 << draw.randint(0, 7), draw.randrange(200)))
    return cute.make_composed_layout(outer(draw), offset, layout(draw))


def table(x):
    return [x(i) for i in range(cute.size(x))]


def answer(operation, *operands):
    """Return the answer, None where it is refused."""
    try:
        return operation(*operands)
    except cute.CuteError:
        return None


def is_linear(values):
    """Return whether offsets are the XOR of one for each bit of the index, and the first."""
    images = [values[0]]
    for bit in range((len(values) - 1).bit_length()):
        images += [values[1 << bit] ^ values[0] ^ image for image in images]
    return images == values


# -- the laws, each for one random layout; a law returns what breaks it


def to_f2(draw, x, values):
    result = answer(cute.to_f2, x)
    if result is None:
        return is_linear(values) and "refused"
    return table(result) != values


def from_f2(draw, x, values):
    result = answer(cute.to_f2, x)
    return result is not None and table(cute.from_f2(result)) != values


def right_inverse(draw, x, values):
    result = answer(cute.right_inverse, x)
    if sorted(values) == list(range(len(values))) and (
        result is None or result.size() < len(values)
    ):
        return "no inverse of a bijection"
    return result is not None and [x(k) for k in table(result)] != list(range(result.size()))


def right_inverse_of_a_bijection(draw, x, values):
    result = answer(cute.right_inverse, x)
    if sorted(values) != list(range(len(values))):
        return False
    return result is None or [values[k] for k in table(result)] != list(range(len(values)))


def left_inverse(draw, x, values):
    result = answer(cute.left_inverse, x)
    if result is None:
        return sorted(values) == list(range(len(values))) and "no inverse of a bijection"
    if len(set(values)) < len(values):
        return [values[result(value)] for value in values] != values
    return [result(value) for value in values] != list(range(len(values)))


def composition_after(draw, x, values):
    a = layout(draw)
    result = answer(cute.composition, a, x)
    return result is None or table(result) != [a(value) for value in values]


def composition_before(draw, x, values):
    tiler = layout(draw, most=16)
    result = answer(cute.composition, x, tiler)
    return result is not None and table(result) != [x(k) for k in table(tiler)]


def composition_with_the_map_alone(draw, x, values):
    a = layout(draw)
    result = answer(cute.composition, a, x.outer)
    return result is None or table(result) != [a(x.outer(k)) for k in range(a.size())]


def slices(draw, x, values):
    coordinate = _coordinate(draw, x.shape)
    sub, offset = cute.slice_and_offset(coordinate, x)
    if not isinstance(sub, (Layout, cute.ComposedLayout)):
        return False
    inner, start = cute.slice_and_offset(coordinate, x.inner)
    expected = [x.outer(x.offset + start + k) for k in table(inner)]
    return [value + offset for value in table(sub)] != expected


def _coordinate(draw, shape):
    if isinstance(shape, tuple) and draw.random() < 0.9:
        return tuple(_coordinate(draw, part) for part in shape)
    return cute._ if draw.random() < 0.5 else draw.randrange(cute.size(shape))


def cosize(draw, x, values):
    return cute.cosize(x) != 1 + max(values)


def questions(draw, x, values):
    distinct, onto = (
        len(set(values)) == len(values),
        sorted(set(values)) == list(range(max(values) + 1)),
    )
    return (cute.is_injective(x), cute.is_bijective(x)) != (distinct, distinct and onto)


def complement(draw, x, values):
    target = draw.choice((1, 16, 64, 200))
    result = answer(cute.complement, x, target)
    sums = {value + move for value in values for move in table(result)} if result else set()
    return result is not None and len(sums) != len(set(values)) * result.size()


def max_common_layout(draw, x, values):
    other = draw.choice((x, x, cute.make_composed_layout(x.outer, x.offset, layout(draw)), x.inner))
    result = answer(cute.max_common_layout, x, other)
    if result is None:
        return False
    places = table(result)
    return not [x(k) for k in places] == [other(k) for k in places] == list(range(len(places)))


def logical_product(draw, x, values):
    block = layout(draw, most=8)
    result = answer(cute.logical_product, block, x)
    if result is None:
        return False
    cells, moves = table(block), table(result)[:: block.size()]
    at = dict(zip(values, moves, strict=True))
    ordered = [at[value] for value in sorted(at)]
    repeats = table(result) == [cell + move for move in moves for cell in cells]
    distinct = {cell + at[value] for cell in cells for value in at}
    return not (
        repeats and ordered == sorted(ordered) and len(distinct) == len(set(cells)) * len(at)
    )


def products_agree(draw, x, values):
    block = layout(draw, most=8)
    logical = answer(cute.logical_product, block, x)
    for operation in (cute.zipped_product, cute.tiled_product, cute.flat_product):
        result = answer(operation, block, x)
        if (logical is None) != (result is None) or (result and table(result) != table(logical)):
            return operation.__name__
    return False


def products_mode_by_mode(draw, x, values):
    block = layout(draw, most=8)
    rank = max(len(block), len(x))
    padded = [cute.append(each, None, rank) for each in (block, x)]
    logical = answer(cute.logical_product, *padded)
    for operation, first in ((cute.blocked_product, 0), (cute.raked_product, 1)):
        result = answer(operation, block, x)
        if (logical is None) != (result is None):
            return operation.__name__
        if logical is None:
            continue
        sizes = [[cute.size(mode) for mode in each] for each in padded]
        for _ in range(8):
            at = [tuple(draw.randrange(extent) for extent in each) for each in sizes]
            if result(tuple(zip(at[first], at[1 - first], strict=True))) != logical(
                *[cute.crd2idx(c, tuple(each)) for c, each in zip(at, sizes, strict=True)]
            ):
                return operation.__name__
    return False


def questions_of_two(draw, x, values):
    inner = layout(draw)
    other = draw.choice((x, inner, swizzled(draw), ComposedLayout(x.outer, x.offset, inner)))
    others, shift = table(other), draw.choice((0, 0, 3))
    expected = (
        set(others) <= set(values),
        not {value + shift for value in others}.isdisjoint(values),
        others == values,
    )
    return expected != (
        cute.contains(x, other),
        cute.overlaps(x, other, shift),
        cute.equivalent(x, other),
    )


def max_common_vector(draw, x, values):
    other = draw.choice((x, x, cute.make_composed_layout(x.outer, x.offset, layout(draw)), x.inner))
    common = answer(cute.max_common_layout, x, other)
    vector = answer(cute.max_common_vector, x, other)
    alike = not x.offset or (isinstance(other, ComposedLayout) and other.offset == x.offset)
    return alike and vector != (common if common is None else common.size())


def divides(draw, x, values):
    tiler = layout(draw, most=8)
    for operation in (cute.logical_divide, cute.zipped_divide, cute.tiled_divide, cute.flat_divide):
        result, inner = answer(operation, x, tiler), answer(operation, x.inner, tiler)
        if (inner is None) != (result is None):
            return operation.__name__
        if result and table(result) != [x.outer(x.offset + k) for k in table(inner)]:
            return operation.__name__
    return False


def downcast(draw, x, values):
    n = draw.choice((2, 4))
    result = answer(cute.downcast, x, n)
    fine = result and set(table(result)) == {n * value + k for value in values for k in range(n)}
    return result is not None and not fine


def upcast(draw, x, values):
    n = draw.choice((2, 4))
    result = answer(cute.upcast, x, n)
    return result is not None and set(table(result)) != {value // n for value in values}


LAWS = (
    to_f2,
    from_f2,
    right_inverse,
    right_inverse_of_a_bijection,
    left_inverse,
    composition_after,
    composition_before,
    composition_with_the_map_alone,
    slices,
    cosize,
    questions,
    complement,
    max_common_layout,
    logical_product,
    products_agree,
    products_mode_by_mode,
    questions_of_two,
    max_common_vector,
    divides,
    downcast,
    upcast,
)


def broken(law, seed):
    """Return what breaks the law for the layout that a seed draws, False if nothing does."""
    draw = seeded(law.__name__, seed)
    x = swizzled(draw)
    try:
        found = law(draw, x, table(x))
    except Exception as error:
        found = repr(error)
    return f"{seed}: {x}: {found}" if found else False
