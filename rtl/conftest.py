"""Puts rtl/testing on the import path of the tests beside the modules."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "testing"))
