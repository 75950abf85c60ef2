"""What each op of the plan and each function of registers has, and what is missing: a list that is
compared exactly, so that a new op shows up in it, and a gap that was filled must leave it.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from cute_py.emulate import HANDLERS, numerics
from cute_py.plan import ops
from cute_py.plan.functions import FUNCTIONS
from tests.emulated.test_broken_twins import TWINS
from tests.emulated.test_functions import ROWS
from tests.gpu.harness import DIVISIONS, SHIFTS, TESTS, functions

TESTS_OF = Path(__file__).parents[1]
SOURCES = TESTS_OF / "golden" / "sources"
NAMES = [kind.__name__ for kind in ops.OPS]

# op -> a test that it does what it should, and one that refuses a kernel which is wrong in one
# place; of `test_broken_twins.py`, the kernel that makes both
EMULATED = {
    "Loop": "test_control.py::test_loops_count_down test_broken_twins.py::loop",
    "While": "test_broken_twins.py::while_",
    "If": "test_threads.py::test_divergent_branches_run_both_ways "
    "test_shared_memory.py::test_barrier_under_a_condition_of_threads_is_divergent",
    "Leave": "test_control.py::test_blocks_leave_before_a_barrier test_broken_twins.py::leave",
    "Let": "test_broken_twins.py::let",
    "Set": "test_broken_twins.py::set_",
    "Promise": "test_broken_twins.py::promise",
    "Fill": "test_broken_twins.py::fill",
    "Map": "test_broken_twins.py::map_",
    "Convert": "test_numerics.py::test_conversions_round_as_asked test_broken_twins.py::convert",
    "Reduce": "test_numerics.py::test_reduce_goes_from_left_to_right test_broken_twins.py::reduce",
    "Shuffle": "test_threads.py::test_shuffle_reduction test_broken_twins.py::shuffle",
    "Vote": "test_threads.py::test_votes test_broken_twins.py::vote",
    "Redux": "test_threads.py::test_redux_combines_the_lanes_that_have_not_ended "
    "test_broken_twins.py::redux",
    "InlinePtx": "test_inline_ptx.py::test_plans_state_the_op test_broken_twins.py::inline_ptx",
    "Load": "test_threads.py::test_vector_add_with_a_ragged_edge "
    "test_threads.py::test_access_beyond_the_array_is_refused",
    "Store": "test_shared_memory.py::test_each_lane_is_in_program_order "
    "test_shared_memory.py::test_lanes_that_write_different_values_to_one_address_are_refused",
    **dict.fromkeys(
        ("CpAsync", "CpCommit", "CpWait"),
        "test_shared_memory.py::test_two_stages_of_cp_async "
        "test_shared_memory.py::test_cp_async_data_is_used_too_early",
    ),
    "LdMatrix": "test_shared_memory.py::test_ldmatrix_reads_what_its_tv_layouts_say "
    "test_shared_memory.py::test_rows_of_ldmatrix_are_aligned",
    "StMatrix": "test_shared_memory.py::test_stmatrix_writes_what_its_tv_layouts_say "
    "test_broken_twins.py::stmatrix",
    "MakePtr": "test_broken_twins.py::pointer",
    "Atomic": "test_threads.py::test_histogram_by_atomics_in_both_memories "
    "test_control.py::test_atomics_do_not_race_with_each_other_but_with_loads",
    "TmaLoad": "test_async.py::test_tma_ring_of_two_stages "
    "test_async.py::test_wrong_transaction_count",
    **dict.fromkeys(
        ("TmaStore", "BulkCommit", "BulkWait"),
        "test_async.py::test_tma_store_writes_the_box_and_drops_what_lies_outside "
        "test_async.py::test_shared_memory_is_reused_before_the_store_has_read_it",
    ),
    "Prefetch": "test_lowered.py::test_a_prefetch_leaves_out_what_is_past_the_extents",
    "Mma": "test_shared_memory.py::test_one_warp_mma_with_ldmatrix "
    "test_shared_memory.py::test_mma_needs_all_lanes",
    "Wgmma": "test_async.py::test_wgmma_of_tiles_in_shared_memory_and_registers "
    "test_async.py::test_wgmma_reads_what_was_stored_without_a_proxy_fence",
    "WgFence": "test_async.py::test_wgmma_of_tiles_in_shared_memory_and_registers "
    "test_async.py::test_a_in_registers_is_used_without_a_fence",
    **dict.fromkeys(
        ("WgCommit", "WgWait"),
        "test_async.py::test_wgmma_of_tiles_in_shared_memory_and_registers "
        "test_async.py::test_accumulators_are_read_too_early",
    ),
    "Barrier": "test_control.py::test_parts_of_a_block_meet_at_barriers_of_their_own "
    "test_broken_twins.py::barrier",
    "Fence": "test_async.py::test_tma_ring_of_two_stages test_async.py::test_missing_proxy_fence",
    "GridDep": "test_lowered.py::test_without_overlap_nothing_waits_for_kernels_before "
    "test_lowered.py::test_tma_uses_memory_and_waits_for_the_kernels_before",
    "MbarInit": "test_async.py::test_tma_ring_of_two_stages "
    "test_async.py::test_mbarrier_must_be_initialised_and_that_be_ordered",
    "MbarInval": "test_broken_twins.py::mbar_inval",
    "MbarArrive": "test_async.py::test_tma_ring_of_two_stages "
    "test_async.py::test_too_many_arrivals",
    "CpArrive": "test_async.py::test_cp_async_arrives_at_an_mbarrier "
    "test_async.py::test_cp_async_arrives_at_an_mbarrier",
    "MbarWait": "test_async.py::test_tma_ring_of_two_stages "
    "test_async.py::test_reading_before_the_mbarrier_is_refused",
    "WaitUntil": "test_threads.py::test_blocks_wait_for_each_other "
    "test_threads.py::test_waiting_for_a_value_that_nobody_stores_is_a_deadlock",
    "SetMaxNReg": "test_broken_twins.py::set_max_nreg",
    "Print": "test_threads.py::test_assert_and_print test_broken_twins.py::print_",
    "Assert": "test_threads.py::test_assert_and_print test_threads.py::test_assert_and_print",
}

CONTROL = "test_control_against_the_emulator.py::test_"
REGISTERS = "test_ops_against_the_emulator.py::test_"
MEMORY = "test_memory_against_the_emulator.py::test_"
HOPPER = "test_hopper.py::test_kernels_give_the_exact_results"
# op -> what records it in `tests/hopper_kernels.py`
IN_HOPPER_KERNELS = {
    "TmaLoad": "tma_load",
    "TmaStore": "tma_store",
    "BulkCommit": "tma_store_commit",
    "BulkWait": "tma_store_wait",
    "MbarInit": "mbarriers",
    "MbarArrive": "mbarriers",
    "MbarWait": "mbarriers",
    "SetMaxNReg": "setmaxnreg",
    "Wgmma": "warpgroup_gemm",
    "WgFence": "warpgroup_fence",
    "WgCommit": "warpgroup_commit",
    "WgWait": "warpgroup_wait",
}
# op -> a test on a GPU, and what records the op there, if not `ops.` and its name
GPU = {
    "Loop": f"{CONTROL}loops_and_branches cute.range",
    "While": f"{CONTROL}loops_and_branches cute.while_",
    "If": f"{CONTROL}loops_and_branches cute.when",
    "Leave": f"{CONTROL}loops_and_branches cute.break_if",
    "Let": f"{CONTROL}registers_as_indices_and_conditions cute.as_int",
    "Set": f"{CONTROL}loops_and_branches cute.var",
    "Promise": f"{CONTROL}registers_as_indices_and_conditions uniform",
    "Fill": f"{REGISTERS}fill_and_reduce",
    "Map": f"{REGISTERS}integer_functions",
    "Convert": f"{REGISTERS}conversions",
    "Reduce": f"{REGISTERS}fill_and_reduce",
    "Shuffle": f"{REGISTERS}shuffles",
    "Vote": f"{REGISTERS}votes",
    "Redux": f"{REGISTERS}redux",
    "InlinePtx": f"{REGISTERS}inline_ptx cute.inline_ptx",
    "Load": f"{MEMORY}orders_and_caches",
    "Store": f"{MEMORY}orders_and_caches",
    "CpAsync": f"{MEMORY}asynchronous_copies",
    "MbarInval": f"{MEMORY}copies_arrive_at_an_mbarrier",
    "CpArrive": f"{MEMORY}copies_arrive_at_an_mbarrier",
    "CpCommit": f"{MEMORY}groups_of_copies_are_waited_for_in_order",
    "CpWait": f"{MEMORY}groups_of_copies_are_waited_for_in_order",
    "LdMatrix": f"{MEMORY}matrices_are_loaded",
    "StMatrix": f"{MEMORY}matrices_are_stored",
    "Atomic": f"{MEMORY}atomics",
    "MakePtr": "test_memory_of_kernels.py::test_an_integer_from_memory_is_an_address cute.make_ptr",
    "Prefetch": f"{CONTROL}a_prefetch_changes_nothing cute.prefetch",
    "Mma": "test_mma_atoms.py::test_what_an_instruction_sums_is_near_the_exact_sum",
    "Barrier": f"{CONTROL}barriers_of_parts_of_a_block cute.named_barrier",
    "Fence": f"{CONTROL}barriers_of_parts_of_a_block cute.threadfence",
    "GridDep": "test_overlap.py::test_a_row_of_overlapping_kernels_counts_each "
    "cute.griddepcontrol_wait",
    "WaitUntil": f"{CONTROL}blocks_wait_for_each_other cute.wait_until",
    "Print": f"{REGISTERS}prints_are_those_of_the_emulator cute.print",
    **{op: f"{HOPPER} cute.{by}" for op, by in IN_HOPPER_KERNELS.items()},
    "Assert": f"{CONTROL}an_assertion_that_holds_changes_nothing cute.assert_",
}

# how ops look in a printed kernel that are no calls by their word
PRINTED = {
    "Loop": r"^ *for \w+ in range\(",
    "While": r"^ *while True:",
    "If": r"^ *if holds_\d",
    "Leave": r"  leave ",
    "Let": r" = var\(",
    "Set": r" := ",
    "MakePtr": r"= pointer_\d",
    "Promise": r"  promise ",
}

MISSING = {
    "Prefetch": {"broken twin"},  # none can be wrong: a prefetch of any address is allowed
}


@cache
def texts(path):
    """Return the text of each function, class and constant of a module, by name."""
    text = path.read_text()
    found = {}
    for node in ast.parse(text).body:
        names = [node.name] if hasattr(node, "name") else []
        names += [x.id for x in getattr(node, "targets", []) if isinstance(x, ast.Name)]
        marks = [ast.get_source_segment(text, x) for x in getattr(node, "decorator_list", [])]
        whole = "\n".join([*marks, ast.get_source_segment(text, node)])
        found |= dict.fromkeys(names, whole)
    return found


def whole_text(path, name):
    """Return the text of a function, and of what it uses of its module."""
    known, open_, seen = texts(path), [name], set()
    assert name in known, f"{path.name} has no {name}"
    while open_:
        each = open_.pop()
        seen.add(each)
        open_ += [n for n in set(re.findall(r"\w+", known[each])) & known.keys() if n not in seen]
    return "".join(known[each] for each in seen)


def mentions(folder, test, what):
    file, _, name = test.partition("::")
    return re.search(rf"\b{re.escape(what)}\b", whole_text(TESTS_OF / folder / file, name))


def missing_of_code(names):
    pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")
    from cute_py.codegen.ops import RULES
    from cute_py.codegen.printer import CONTROL

    return {name for name in names if getattr(ops, name) not in (*RULES, *CONTROL)}


def missing_of_sources(names):
    text = "".join(path.read_text() for path in SOURCES.glob("*.py"))
    words = {name: getattr(ops, name).word for name in names}
    marks = {n: PRINTED.get(n, rf"^    {word}_\*: ") for n, word in words.items()}
    return {name for name, mark in marks.items() if not re.search(mark, text, re.MULTILINE)}


def missing_of_twins(names):
    twins = {name: EMULATED.get(name, "").split() for name in names}
    return {n for n, tests in twins.items() if "broken_twins" not in str(tests) and len(tests) < 2}


MISSES = {
    "emulation": lambda names: {n for n in names if getattr(ops, n) not in HANDLERS},
    "code": missing_of_code,
    "emulator test": lambda names: set(names) - set(EMULATED),
    "broken twin": missing_of_twins,
    "golden source": missing_of_sources,
    "GPU test": lambda names: set(names) - set(GPU),
}


@pytest.mark.parametrize("what", MISSES)
def test_what_is_missing_of_ops_is_what_is_listed(what):
    listed = {name for name, missing in MISSING.items() if what in missing}
    assert MISSES[what](NAMES) == listed


def test_what_is_missing_is_of_ops_and_known_by_name():
    assert set(MISSING) | set(EMULATED) | set(GPU) == set(NAMES)
    assert set().union(*MISSING.values()) <= set(MISSES)


@pytest.mark.parametrize("name", NAMES)
def test_tests_of_an_op_are_there_and_use_it(name):
    for test in EMULATED[name].split():
        file, _, kernel = test.partition("::")
        assert kernel[:5] == "test_" or kernel in [body.__name__ for body, _code in TWINS]
        assert file[:5] == "test_"
        assert mentions("emulated", test, f"ops.{name}"), test
    if name in IN_HOPPER_KERNELS:  # the test runs all of them
        kernels = (TESTS_OF / "hopper_kernels.py").read_text()
        assert f"cute.{IN_HOPPER_KERNELS[name]}(" in kernels
        assert mentions("gpu", HOPPER, "CASES")
    elif name in GPU:
        test, _, by = GPU[name].partition(" ")
        assert mentions("gpu", test, by or f"ops.{name}"), test


# -- functions

FUNCTION_MISSING = {}


def has_code(row):
    from cute_py.codegen.ops.registers import functions as code

    floats = row.moves or row.name in code._FLOAT
    integers = row.moves or row.name in code.INTEGER
    return {"float": floats, "int": integers, "word": integers}.get(row.domain, floats and integers)


def test_what_is_missing_of_functions_is_what_is_listed():
    pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")
    gpu = (TESTS_OF / "gpu" / "test_ops_against_the_emulator.py").read_text()
    on_gpu = {
        *functions("int"),
        *functions("float"),
        *functions("word"),
        *TESTS,
        *DIVISIONS,
        *SHIFTS,
    }
    tested = {name for name, _type in ROWS}
    found = {}
    for name, row in FUNCTIONS.items():
        checks = {
            "emulator rule": name in numerics.RULES,
            "code": has_code(row),
            "model test": name in tested or row.name == "copy",
            "GPU test": name in on_gpu or f'"{name}"' in gpu,
        }
        missing = {what for what, there in checks.items() if not there}
        found |= {name: missing} if missing else {}
    assert found == FUNCTION_MISSING


# -- the list itself


def test_an_op_without_anything_shows_up():
    assert MISSES["emulator test"]([*NAMES, "Nothing"]) == {"Nothing"}
    assert MISSES["GPU test"]([*GPU, "Nothing"]) == {"Nothing"}
    assert missing_of_twins(["Nothing", "Fill"]) == {"Nothing"}
    assert not mentions("emulated", EMULATED["Fill"], "ops.Vote")
    assert mentions("emulated", EMULATED["CpWait"].split()[1], "ops.CpWait")  # by a helper
    with pytest.raises(AssertionError, match="has no nothing"):
        mentions("emulated", "test_threads.py::nothing", "ops.Vote")
