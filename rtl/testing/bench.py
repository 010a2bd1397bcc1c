"""Builds one module with Verilator and runs the cocotb tests that lie beside it."""

import os
import pathlib

from cocotb_tools.runner import get_runner

RTL = pathlib.Path(__file__).parents[1]
ROOT = RTL.parent
MAKEFLAGS = (
    "CXX=g++ LINK=g++ AR=ar PERL=perl PYTHON3=python3 CFG_CXXFLAGS_PCH_I=-include CFG_CXXFLAGS_STD=-std=c++20 "
    "CFG_CXXFLAGS_COROUTINES=-fcoroutines CFG_LDLIBS_THREADS=-pthread"
)


def run(top, sources, test_module, parameters=None, wrapper=None):
    """Runs every cocotb test of `test_module` (a file beside the module under test) on `top`.

    `sources` are paths below rtl/, the package first. Raises if a test fails.
    """
    os.environ["PATH"] = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
    os.environ["MAKEFLAGS"] = MAKEFLAGS
    test = pathlib.Path(test_module).resolve()
    parameters = parameters or {}
    suffix = "".join(f"_{name}{value}" for name, value in parameters.items())
    build = pathlib.Path(os.environ.get("WEFT_RTL_BUILD", ROOT / "target/rtl")) / f"{top}{suffix}"
    runner = get_runner("verilator")
    runner.build(
        hdl_toplevel=top,
        sources=[RTL / source for source in sources],
        parameters=parameters,
        build_dir=build,
        build_args=["--no-timing", "-O1", "-Wall", "-Wno-fatal", "-CFLAGS", "-O1", "--assert"],
        always=True,
    )
    runner.test(
        hdl_toplevel=top,
        test_module=test.stem,
        build_dir=build,
        test_dir=build,
        extra_env={"PYTHONPATH": f"{test.parent}:{RTL / 'testing'}"},
    )
