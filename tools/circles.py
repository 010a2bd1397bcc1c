#!/usr/bin/env python3
"""Finds circular imports between the files of a crate. There must be none, so that files can be read in order.

    tools/circles.py [CRATE...]        all crates under crates/ but the doors, or these folders

A file depends on another if a `use` or a path in its code names an item that the other defines. An item that a file only
re-exports (`pub use`) belongs to the file that defines it. Files below a module in the module tree are parts of that
module: they may extend its types, and it may use theirs. The parts of a module must have an order: a part, with all files
below it, may depend only on parts that do not depend on it. Tests are ignored, and so are paths that cannot be resolved
without a compiler: methods, macros, names imported by a glob from another crate. The exit status is 1 if there is a
circle; the output names an item for each of its steps.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The doors (C libraries) are exempt: their structures necessarily point at each other, for example a queue pair at its
# completion queues and its protection domain, and an event at any of these.
DOORS = ROOT / "crates" / "doors"
ITEM = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:default\s+|const\s+|async\s+|unsafe\s+|extern\s+\"C\"\s+)*"
    r"(?:fn|struct|enum|union|trait|type|const|static|macro_rules!)\s+(?:mut\s+)?(\w+)", re.M)
USE = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.M)
PATH = re.compile(r"(?<![\w:])((?:crate|self|super(?:::super)*)(?:::\w+)+)")


def without_tests_and_comments(text):
    """The code without comments, strings and test-only items."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text, flags=re.S)
    while found := re.search(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*", text):
        end = found.end()
        depth = 0
        while end < len(text):
            depth += text[end] == "{"
            depth -= text[end] == "}"
            end += 1
            if depth == 0 and text[end - 1] in ";}":
                break
        text = text[:found.start()] + text[end:]
    return text


def leaves(tree, prefix=()):
    """The paths in a use tree, each with the name that it introduces."""
    tree = " ".join(tree.split())
    if (open_brace := tree.find("{")) >= 0:
        head = tuple(part for part in tree[:open_brace].strip().split("::") if part)
        inner, depth, begin = tree[open_brace + 1:tree.rindex("}")], 0, 0
        parts = []
        for place, sign in enumerate(inner):
            depth += (sign == "{") - (sign == "}")
            if sign == "," and depth == 0:
                parts.append(inner[begin:place])
                begin = place + 1
        parts.append(inner[begin:])
        for part in filter(str.strip, parts):
            yield from leaves(part, prefix + head)
        return
    path, _, name = tree.partition(" as ")
    path = prefix + tuple(part.strip() for part in path.split("::") if part.strip())
    if path and path[-1] == "self":
        path = path[:-1]
    yield path, name.strip() or path[-1]


class Crate:
    """The modules of a crate that have their own files."""

    def __init__(self, folder):
        self.folder = folder
        self.files, self.code, self.items, self.uses = {}, {}, {}, {}
        source = folder / "src"
        root = source / "lib.rs" if (source / "lib.rs").exists() else source / "main.rs"
        self.take((), root, source)

    def take(self, module, file, children):
        code = without_tests_and_comments(file.read_text())
        self.files[module], self.code[module] = file, code
        self.items[module] = set(ITEM.findall(code))
        self.uses[module] = [(bool(public), path, name) for public, tree in USE.findall(code)
                             for path, name in leaves(tree)]
        for attributes, name in re.findall(r"((?:#\[[^\]]*\]\s*)*)(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", code):
            given = re.search(r'path\s*=', attributes)
            for child in () if given else (children / f"{name}.rs", children / name / "mod.rs"):
                if child.exists():
                    self.take(module + (name,), child, children / name)

    def absolute(self, module, path):
        """The path relative to the crate root; None if it is in another crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] in ("self", "super"):
            base = module
            rest = list(path)
            if rest[0] == "self":
                rest = rest[1:]
            while rest and rest[0] == "super":
                base, rest = base[:-1], rest[1:]
            return base + tuple(rest)
        if module + path[:1] in self.files:
            return module + path
        return None

    def definer(self, path, seen=()):
        """The module whose file defines the item that a path names, and the item; None if the item is not of this crate."""
        if path is None or path in seen:
            return None
        module = path
        while module and module not in self.files:
            module = module[:-1]
        rest = path[len(module):]
        if not rest:
            return None  # A whole module: the items used from it are found where they are used.
        name = rest[0]
        if name in self.items[module]:
            return module, name
        for _, used, given in self.uses[module]:
            if given == name:
                return self.definer(self.absolute(module, used), seen + (path,))
            if given == "*":
                found = self.definer((self.absolute(module, used[:-1]) or ("",)) + (name,), seen + (path,))
                if found:
                    return found
        return None

    def needs(self):
        """For each module: the modules on which it depends, with the names of the items that it uses."""
        needs = {module: {} for module in self.files}
        for module, code in self.code.items():
            def need(path):
                if found := self.definer(path):
                    if found[0] != module:
                        needs[module].setdefault(found[0], set()).add(found[1])

            modules = {}
            for public, path, name in self.uses[module]:
                absolute = self.absolute(module, path)
                if absolute is None:
                    continue
                if absolute in self.files:
                    modules[name] = absolute
                elif not public:
                    need(absolute)
            for child in self.files:
                if child[:-1] == module and child:
                    modules.setdefault(child[-1], child)
            body = USE.sub("", code)
            for path in PATH.findall(body):
                need(self.absolute(module, tuple(path.split("::"))))
            for name, item in re.findall(r"(?<![\w:])(\w+)::(\w+)", body):
                if name in modules:
                    need(modules[name] + (item,))
        return needs


def circles(needs):
    """The strongly connected components with more than one file (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(module):
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in needs[module]:
            if other not in number:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], number[other])
        if low[module] == number[module]:
            part = stack[stack.index(module):]
            del stack[stack.index(module):]
            if len(part) > 1:
                found.append(part)

    sys.setrecursionlimit(10_000)
    for module in needs:
        if module not in number:
            visit(module)
    return found


def parts(crate, needs):
    """For each module with files below it: the dependencies between its parts, and the files that cause them."""
    for module in crate.files:
        depth = len(module)
        below = [other for other in crate.files if other[:depth] == module and len(other) > depth]
        graph = {other: {} for other in below if len(other) == depth + 1}
        for one in below:
            for other in needs[one]:
                if other in below and one[:depth + 1] != other[:depth + 1]:
                    graph[one[:depth + 1]].setdefault(other[:depth + 1], []).append((one, other))
        yield graph


def main():
    folders = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    folders = folders or sorted(manifest.parent for manifest in ROOT.glob("crates/**/Cargo.toml")
                                if (manifest.parent / "src").exists() and DOORS not in manifest.parents)
    count = 0
    for folder in folders:
        crate = Crate(folder)
        needs = crate.needs()
        for graph in parts(crate, needs):
            for circle in circles(graph):
                count += 1
                print(f"{folder.relative_to(ROOT)}: {len(circle)} parts of a module need each other")
                steps = [step for part in sorted(circle) for other in sorted(graph[part]) if other in circle
                         for step in graph[part][other]]
                for one, other in steps:
                    taken = ", ".join(sorted(needs[one][other])[:4])
                    files = [crate.files[file].relative_to(folder / "src") for file in (one, other)]
                    print(f"    {files[0]} needs {files[1]} for {taken}")
    if count:
        print(f"{count} circles of imports: move what both sides need into a file of its own")
        return 1
    print(f"no circle of imports between the files of {len(folders)} crates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
