#!/usr/bin/env python3
"""Checks that no line of prose or comment exceeds 120 columns, and that no page exceeds its maximum size.

Prose is Markdown outside of tables, indented blocks and fences. A comment is a line of Rust, SystemVerilog, Python,
shell, C++ or TOML that begins with a comment sign, outside of tables and indented or fenced layouts in it; a URL
may be longer.

Usage: tools/columns.py
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 120
PAGE_BYTES = 40 * 1024
BYTES = {"README.md": 10 * 1024, "ARCHITECTURE.md": 14 * 1024}
COMMENTS = {
    ".rs": r"\s*//",
    ".sv": r"\s*//",
    ".svh": r"\s*//",
    ".rdl": r"\s*//",
    ".cpp": r"\s*//",
    ".h": r"\s*//",
    ".py": r"\s*#",
    ".sh": r"\s*#",
    ".toml": r"\s*#",
}


def long_lines(path):
    """Numbers and lengths of the lines of prose or comment that are too long."""
    comment = COMMENTS.get(path.suffix)
    is_fenced = False
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if path.suffix == ".md":
            text, is_prose = line, True
        else:
            text = re.sub(comment + r"[/!#]? ?", "", line, count=1)
            is_prose = text != line
        is_fenced ^= text.startswith("```")
        is_prose = is_prose and not is_fenced and not text.startswith(("    ", "|", "```"))
        if is_prose and len(line) > COLUMNS and "://" not in line:
            yield number, len(line)


def main():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    wrong = []
    for name in files:
        path = ROOT / name
        if path.suffix not in {".md", *COMMENTS} or not path.is_file():
            continue
        wrong += [f"{name}:{number}: {length} columns; {COLUMNS} are allowed" for number, length in long_lines(path)]
        size, limit = path.stat().st_size, BYTES.get(name, PAGE_BYTES)
        if path.suffix == ".md" and size > limit:
            wrong.append(f"{name}: {size} bytes; {limit} are allowed")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
