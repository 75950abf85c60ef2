"""`cute-py doctor`: every fact, with modules, tools and drivers that are missing, old or broken."""

import ctypes
import json
import subprocess
import time
from importlib import metadata
from pathlib import Path

import pytest

from cute_py.cli import installation_commands
from cute_py.cli.main import main
from cute_py.codegen import doctor, toolchain
from cute_py.codegen.cache.files import source_file
from cute_py.codegen.doctor import CUDA, EMULATOR, GPU, MISSING, OK, OLD, WRONG, Fact
from cute_py.codegen.driver import devices
from cute_py.errors import refusal

GOOD = {
    "numpy": "2.4.6",
    "ml_dtypes": "0.5.4",
    "sympy": "1.14",
    "rich": "14.0",
    "numba": "0.68.1",
    "numba-cuda": "0.30.4",
    "llvmlite": "0.50.0",
    "cuda-bindings": "13.5.0",
    "cuda-core": "1.2.2",
    "nvidia-nvvm": "13.0.88",
}
WANTED = [
    "numpy>=1.26",
    "ml_dtypes>=0.5",
    "sympy>=1.13",
    "numba>=0.61; (sys_platform == 'linux') and extra == 'cuda'",
    "numba-cuda[cu13]<0.31,>=0.30.4; extra == 'cuda'",
    "cuda-bindings<14,>=13.0; extra == 'cuda'",
    "cuda-core<2,>=1.0; extra == 'cuda'",
]


class Driver:
    """A stand-in for libcuda: calls by name, each of which returns a status."""

    def __init__(self, supported=13000, names=("NVIDIA H100",), capability=(9, 0), mode=0, fails=0):
        self.supported, self.names, self.fails = supported, names, fails
        self.values = {75: capability[0], 76: capability[1], 97: 232448, 16: 132, 20: mode}

    def cuInit(self, _flags):
        return self.fails

    def cuDriverGetVersion(self, number):
        number._obj.value = self.supported
        return 0

    def cuDeviceGetCount(self, count):
        count._obj.value = len(self.names)
        return 0

    def cuDeviceGet(self, handle, i):
        handle._obj.value = i
        return 0

    def cuDeviceGetName(self, text, _size, handle):
        text.value = self.names[handle.value].encode()
        return 0

    def cuDeviceTotalMem_v2(self, size, _handle):
        size._obj.value = 80 * 2**30
        return 0

    def cuDeviceGetAttribute(self, value, kind, _handle):
        value._obj.value = self.values[kind]
        return 0


class Machine:
    """A machine that the doctor looks at: packages, tools, driver, cache."""

    def __init__(self, folder):
        self.packages, self.driver = dict(GOOD), Driver()
        self.tools = {"ptxas": "13.0.88", "nvdisasm": "13.5.37"}
        self.bin = folder / "site-packages" / "nvidia" / "cu13" / "bin"
        library = self.bin.parent / "lib" / "libnvvm.so.4"
        library.parent.mkdir(parents=True)
        library.touch()

    def version(self, name):
        if name not in self.packages:
            raise metadata.PackageNotFoundError(name)
        return self.packages[name]

    def tool(self, name):
        if name not in self.tools:
            raise refusal("codegen-missing", operation="cute.compile", name=name)
        return str(self.bin / name)

    def told(self, command, **_options):
        version = self.tools[Path(command[0]).name]
        text = f"Cuda compilation tools, release {version[:4]}, V{version}\n"
        return subprocess.CompletedProcess(command, 0 if version else 1, text, "")

    def load(self):
        if self.driver is None:
            raise devices.DriverError("libcuda.so.1: cannot open shared object file")
        return self.driver


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a `Machine` on which all is well; tests break it."""
    made = Machine(tmp_path)
    monkeypatch.setattr(metadata, "version", made.version)
    monkeypatch.setattr(metadata, "requires", lambda _name: WANTED)
    monkeypatch.setattr(toolchain, "tool", made.tool)
    monkeypatch.setattr(toolchain, "places", lambda: [str(made.bin)])
    monkeypatch.setattr(doctor.subprocess, "run", made.told)
    monkeypatch.setattr(devices, "load", made.load)
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(tmp_path / "cache"))
    return made


def found():
    """Return the facts by name."""
    return {fact.name: fact for fact in doctor.facts()}


def test_all_is_well(machine):
    facts = doctor.facts()
    assert doctor.works(facts, EMULATOR)
    assert doctor.works(facts, GPU)
    assert doctor.fixes(facts) == []
    assert {f.name for f in facts if f.mark != OK} == {"torch", "CuPy"}  # wanted by nobody
    text = found()["GPU 0"].text
    assert text.startswith("NVIDIA H100, compute capability 9.0, compiled for sm_90a, 80.0 GiB")
    assert "232448 bytes of shared memory a block" in text


@pytest.mark.parametrize(
    ("name", "version", "mark", "says"),
    [
        ("numba-cuda", None, MISSING, "not installed"),
        ("numba-cuda", "0.29.0", OLD, "0.29.0; required: <0.31,>=0.30.4"),
        ("numba-cuda", "0.31.0", WRONG, "0.31.0; required: <0.31,>=0.30.4"),
        ("cuda-bindings", "12.9.1", OLD, "12.9.1; required: <14,>=13.0"),
        ("llvmlite", None, MISSING, "not installed"),
    ],
)
def test_a_package_of_the_compiler_is_wrong(machine, name, version, mark, says):
    machine.packages.pop(name)
    if version is not None:
        machine.packages[name] = version
    facts = doctor.facts()
    assert Fact(name, mark, says, GPU, CUDA) in facts
    assert doctor.works(facts, EMULATOR)
    assert not doctor.works(facts, GPU)
    assert doctor.fixes(facts) == ['pip install "cute-py[cuda]"']


@pytest.mark.parametrize(("version", "mark"), [(None, MISSING), ("1.25.2", OLD)])
def test_the_emulator_needs_numpy(machine, version, mark):
    machine.packages.pop("numpy")
    if version is not None:
        machine.packages["numpy"] = version
    facts = doctor.facts()
    assert [f.mark for f in facts if f.name == "numpy"] == [mark]
    assert doctor.failing(facts, EMULATOR) == ["numpy"]
    assert doctor.fixes(facts) == ['pip install "cute-py"']


def test_the_shim_is_told_of(machine):
    assert found()["NumPy shim"].text == "not needed (NumPy 2.4.6)"
    machine.packages["numpy"] = "2.5.2"
    assert found()["NumPy shim"].text.startswith("applied")
    del machine.packages["numba-cuda"]
    assert "NumPy shim" not in found()


def test_nvvm_newer_than_ptxas_is_told_with_the_repair(machine):
    machine.packages["nvidia-nvvm"] = "13.4.20"
    text = "NVVM 13.4 writes PTX that ptxas 13.0 cannot read"
    assert found()["PTX"] == Fact("PTX", WRONG, text, GPU, CUDA)
    machine.tools["ptxas"] = "13.4.1"
    assert "PTX" not in found()


def test_the_version_of_a_toolkit_is_read_from_it(machine, tmp_path, monkeypatch):
    library = tmp_path / "cuda" / "nvvm" / "lib64" / "libnvvm.so"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(toolchain, "places", lambda: [str(tmp_path / "cuda" / "bin")])
    assert found()["NVVM"].text == f"of unknown version in {library}"
    (tmp_path / "cuda" / "version.json").write_text('{"cuda": {"version": "13.0.2"}}')
    assert found()["NVVM"].text == f"13.0.2 in {library}"
    library.unlink()
    assert found()["NVVM"].mark == MISSING


def test_missing_and_mute_tools(machine):
    del machine.tools["nvdisasm"]
    facts = doctor.facts()
    assert doctor.works(facts, GPU)  # it only shows SASS
    assert doctor.fixes(facts) == ['pip install "cute-py[test]"']
    machine.tools["ptxas"] = ""
    assert found()["ptxas"].mark == WRONG
    assert "does not print its version" in found()["ptxas"].text
    machine.tools["ptxas"] = "12.9.86"
    assert found()["ptxas"].mark == OLD
    del machine.tools["ptxas"]
    assert found()["ptxas"].mark == MISSING


def test_no_driver(machine):
    machine.driver = None
    fact = found()["driver"]
    assert (fact.mark, fact.needed) == (MISSING, GPU)
    assert "NVIDIA driver for CUDA 13.0 (580)" in fact.fix
    assert not any(name.startswith("GPU") for name in found())


def test_old_drivers_and_gpus(machine):
    machine.driver = Driver(supported=12080, names=("Tesla V100",), capability=(7, 0))
    facts = found()
    assert facts["driver"].mark == OLD
    assert facts["driver"].text.endswith("for CUDA 12.8")
    assert facts["GPU 0"].mark == OLD
    machine.driver = Driver(names=("H100 MIG 1g.10gb", "H100"), mode=2)
    facts = found()
    assert "a part of a GPU (MIG)" in facts["GPU 0"].text
    assert [facts[f"GPU {i}"].mark for i in (0, 1)] == [WRONG, WRONG]
    assert facts["GPU 1"].text.endswith("compute mode prohibited")


def test_a_driver_without_a_gpu(machine):
    machine.driver = Driver(fails=devices.NO_DEVICE)
    assert found()["GPU"].text == "cuInit returns 100: no GPU"
    machine.driver = Driver(names=())
    assert found()["GPU"].mark == MISSING


def test_torch_and_cupy(machine, tmp_path, monkeypatch):
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('the doctor imports nothing heavy')")
    (folder / "version.py").write_text("cuda: Optional[str] = '13.0'\n")
    monkeypatch.syspath_prepend(tmp_path)
    machine.packages |= {"torch": "2.9.0", "cupy-cuda12x": "13.6.0"}
    facts = found()
    assert (facts["torch"].mark, facts["torch"].text) == (OK, "2.9.0, for CUDA 13.0")
    assert (facts["CuPy"].mark, facts["CuPy"].text) == (OK, "13.6.0, for CUDA 12")
    (folder / "version.py").write_text("cuda: Optional[str] = None\n")
    assert found()["torch"].mark == WRONG


def test_the_cache(machine, tmp_path):
    assert found()["cache"].text.endswith("cache: 0 files, 0 bytes, mode 0700")
    source_file("kernel", "pass")
    (tmp_path / "cache" / "other").write_text("a file of the user")
    assert ": 1 files, 4 bytes" in found()["cache"].text
    (tmp_path / "cache").chmod(0o770)
    fact = found()["cache"]
    assert (fact.mark, fact.text) == (WRONG, f"{tmp_path / 'cache'}: others can write to it")
    assert fact.fix == doctor.FOLDER


def test_a_cache_that_is_a_file(machine, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(tmp_path / "file"))
    fact = found()["cache"]
    assert (fact.mark, fact.text) == (WRONG, f"{tmp_path / 'file'}: File exists")
    assert fact.fix == doctor.FOLDER


def test_kernels_run_without_a_cache(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    assert doctor.works(doctor.facts(), GPU)
    monkeypatch.setenv("CUTE_PY_CACHE", "0")
    assert (found()["cache"].mark, found()["cache"].text) == (OK, "off, by CUTE_PY_CACHE=0")


def test_no_probe_raises(machine, monkeypatch):
    """Whatever breaks is the text of a fact, and the facts before it are kept."""

    def broken(*_args):
        raise RuntimeError("broken\nfor good")

    for name in ("version", "requires"):
        monkeypatch.setattr(metadata, name, broken)
    monkeypatch.setattr(devices, "load", broken)
    monkeypatch.setattr(toolchain, "tool", broken)
    facts = doctor.facts()
    assert found()["packages"].text == "RuntimeError: broken"
    assert found()["driver"].mark == WRONG
    assert found()["toolkit"].mark == WRONG
    assert not doctor.works(facts, EMULATOR)


def test_metadata_of_cute_py_may_be_missing(machine, monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    machine.packages["numpy"] = "1.0"
    assert found()["numpy"].mark == OK


def test_marks_of_versions():
    assert doctor.judged("13.0.3.0", "==13.0.*") == OK
    assert doctor.judged("13.4.0", "==13.0.*") == WRONG
    assert doctor.judged("12.9", "==13.0.*") == OLD
    assert doctor.judged("2.0", "<2,>=1.0") == WRONG
    assert doctor.judged("1.0", "<2,>=1.0") == OK
    assert doctor.judged("0.9.9rc1", ">=1") == OLD
    assert doctor.judged("1", "") == OK


# -- the command


@pytest.fixture
def run(capsys):
    """Return `run(*arguments)`: exit code and output; nothing is written to the error output."""

    def call(*arguments):
        code = main(["doctor", *arguments])
        output, error = capsys.readouterr()
        assert error == ""
        return code, output

    return call


def test_command_tells_facts_verdicts_and_what_to_install(machine, run):
    machine.driver = None
    code, output = run("--quick")
    lines = output.splitlines()
    assert code == 0
    assert lines[2].split() == ["ok", "numpy", "2.4.6"]
    assert "the emulator works" in lines
    assert "the GPU path does not work: see driver" in lines
    assert lines[-2:] == ["to do:", "  install an NVIDIA driver for CUDA 13.0 (580) or newer"]
    assert run("--quick", "--gpu")[0] == installation_commands.FAILED


def test_command_fails_without_numpy(machine, run):
    del machine.packages["numpy"]
    assert run("--quick")[0] == installation_commands.FAILED


def test_command_prints_json(machine, run):
    code, output = run("--quick", "--json", "--gpu")
    told = json.loads(output)
    assert code == 0
    assert (told["emulator"], told["gpu"], told["install"]) == (True, True, [])
    assert told["facts"][0].keys() == {"name", "mark", "text", "needed", "fix"}


def test_self_tests_tell_what_breaks(machine, run, monkeypatch):
    def broken():
        raise refusal("codegen-missing", operation="cute.compile", name="ptxas")

    monkeypatch.setattr(installation_commands, "_compiled", broken)
    monkeypatch.setattr(installation_commands, "_launched", lambda: "a copy, right")
    facts = {fact.name: fact for fact in installation_commands.self_tests(doctor.facts())}
    assert facts["emulator"].mark == OK
    assert facts["compile"].mark == WRONG
    assert facts["compile"].text.startswith("cute.compile: given no ptxas on this machine")
    assert facts["launch"] == Fact("launch", OK, "a copy, right", GPU)
    code, output = run("--gpu")
    assert code == installation_commands.FAILED
    assert "the GPU path does not work: see compile" in output


def test_this_machine_is_looked_at_quickly(run):
    """Really, with what is installed here: under two seconds, and the emulator works."""
    start = time.process_time()  # not the wall's: the machine may be busy
    code, _output = run("--quick")
    assert time.process_time() - start < 2
    assert code == 0


def test_the_driver_of_this_machine():
    """With or without one: no exception but the one that says so."""
    fact = next(f for f in doctor.facts() if f.name == "driver")
    try:
        library = devices.load()
    except devices.DriverError:
        library = None
    assert (fact.mark == MISSING) == (library is None)
    assert library is None or isinstance(library, ctypes.CDLL)
