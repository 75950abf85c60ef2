"""Public names of cute_py.host, for type checkers; from `_HOME`."""

from cute_py.host.reference import reference_gemm as reference_gemm
from cute_py.host.reference import tensor_add as tensor_add
from cute_py.host.reference import tensor_div as tensor_div
from cute_py.host.reference import tensor_equals as tensor_equals
from cute_py.host.reference import tensor_map2 as tensor_map2
from cute_py.host.reference import tensor_modulus as tensor_modulus
from cute_py.host.reference import tensor_mul as tensor_mul
from cute_py.host.reference import tensor_sub as tensor_sub
from cute_py.host.fill import tensor_fill as tensor_fill
from cute_py.host.fill import tensor_fill_random_gaussian as tensor_fill_random_gaussian
from cute_py.host.fill import tensor_fill_random_uniform as tensor_fill_random_uniform
from cute_py.host.fill import tensor_fill_sequential as tensor_fill_sequential
from cute_py.host.text import print_tensor as print_tensor
from cute_py.host.text import tensor_table as tensor_table
from cute_py.host.text import tensor_text as tensor_text
