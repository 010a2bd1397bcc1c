"""Lets the tests beside the modules import rtl/testing."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "testing"))
