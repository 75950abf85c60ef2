"""Public names of cute_py.analysis, for type checkers; from `_HOME`."""

from cute_py.analysis.requests import Access as Access
from cute_py.analysis.requests import Coalescing as Coalescing
from cute_py.analysis.requests import coalescing as coalescing
from cute_py.analysis.requests import vector_width as vector_width
from cute_py.analysis.banks import BankConflicts as BankConflicts
from cute_py.analysis.banks import bank_conflicts as bank_conflicts
from cute_py.analysis.resources import DEVICES as DEVICES
from cute_py.analysis.resources import DeviceLimits as DeviceLimits
from cute_py.analysis.resources import Occupancy as Occupancy
from cute_py.analysis.resources import Registers as Registers
from cute_py.analysis.resources import Wave as Wave
from cute_py.analysis.resources import occupancy as occupancy
from cute_py.analysis.resources import registers as registers
from cute_py.analysis.resources import wave as wave
from cute_py.analysis.solver import SmemSolution as SmemSolution
from cute_py.analysis.solver import suggest_smem_layout as suggest_smem_layout
from cute_py.analysis.solver import swizzle_solver as swizzle_solver
from cute_py.analysis import model as model
