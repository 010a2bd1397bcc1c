"""Packs and unpacks the packed structs of the gateware's packages, which it parses from their source files."""

import math
import pathlib
import re

RTL = pathlib.Path(__file__).parents[1]
# Each package uses only those before it.
PACKAGES = ["weft_pkg.sv", "engines/engines_pkg.sv", "engines/kv/kv_pkg.sv", "engines/rounds/rounds_pkg.sv"]
SERVICE_PACKAGES = ["weft_pkg.sv", "services/inspect_pkg.sv", "services/preprocess_pkg.sv", "services/services_pkg.sv"]
# With the tables that the packages need, in the order of compilation.
SERVICE_SOURCES = ["weft_pkg.sv", "services/inspect_pkg.sv", "services/generated/preprocess_log_pkg.sv",
                   "services/preprocess_pkg.sv", "services/services_pkg.sv"]


class Package:
    """The constants, enumerations and structs of SystemVerilog packages."""

    def __init__(self, paths=tuple(RTL / package for package in PACKAGES)):
        self.constants = {}
        self.widths = {"logic": 1}
        self.structs = {}
        self._package = None  # the package being parsed
        self._declared = {}  # declared names, and the package that declares each
        for path in paths:
            self._package = path.name
            self._read(re.sub(r"//[^\n]*", "", path.read_text()))

    def _read(self, text):
        for name, value in re.findall(r"`define (\w+) (\w+)", text):
            text = re.sub(rf"`{name}\b", value, text)
        declaration = re.compile(
            r"localparam\s+(?:int unsigned|logic\s*\[[^]]*\]|\w+)\s+(?P<constant>\w+)\s*=\s*(?P<value>[^;]+);"
            r"|typedef\s+enum\s+logic\s*(?P<enum_range>\[[^]]*\])?\s*\{(?P<members>[^}]*)\}\s*(?P<enum>\w+);"
            r"|typedef\s+struct\s+packed\s*\{(?P<fields>[^}]*)\}\s*(?P<struct>\w+);"
            r"|typedef\s+(?P<of>\w+)(?:\s*(?P<range>\[[^]]*\])\s*|\s+)(?P<alias>\w+);"
        )
        for found in declaration.finditer(text):
            self._declare(found["constant"] or found["enum"] or found["struct"] or found["alias"])
            if found["constant"]:
                self.constants[found["constant"]] = self._evaluate(found["value"])
            elif found["enum"]:
                self.widths[found["enum"]] = self._range(found["enum_range"])
                self._enumerate(found["members"])
            elif found["struct"]:
                fields = re.findall(r"(\w+)\s*(\[[^]]*\])?\s+(\w+)\s*;", found["fields"])
                members = [
                    (name, kind, self.widths[kind] * self._range(bits)) for kind, bits, name in fields
                ]
                self.structs[found["struct"]] = members
                self.widths[found["struct"]] = sum(width for _, _, width in members)
            else:
                self.widths[found["alias"]] = self.widths[found["of"]] * self._range(found["range"])

    def _declare(self, name):
        if other := self._declared.get(name):
            raise ValueError(f"{self._package}: {name} is declared in {other} already")
        self._declared[name] = self._package

    def _evaluate(self, expression):
        expression = re.sub(r"\d*'([hdb])([0-9a-fA-F_]+)", self._literal, expression)
        expression = expression.replace("$clog2", "clog2").replace("/", "//").replace("'1", "-1")
        clog2 = lambda value: max(1, math.ceil(math.log2(value)))  # noqa: E731
        return eval(expression, {"clog2": clog2}, self.constants)  # noqa: S307: the project's own file

    @staticmethod
    def _literal(found):
        return str(int(found[2].replace("_", ""), {"h": 16, "d": 10, "b": 2}[found[1]]))

    def _range(self, bits):
        if not bits:
            return 1
        high, low = bits.strip("[]").split(":")
        return self._evaluate(high) - self._evaluate(low) + 1

    def _enumerate(self, members):
        following = 0
        for member in filter(None, (member.strip() for member in members.split(","))):
            name, _, value = (part.strip() for part in member.partition("="))
            following = self._evaluate(value) if value else following
            self._declare(name)
            self.constants[name] = following
            following += 1

    def pack(self, struct, **values):
        """The packed integer of a struct. Missing fields are zero; nested structs are dictionaries."""
        packed = 0
        known = {name for name, _, _ in self.structs[struct]}
        if unknown := values.keys() - known:
            raise KeyError(f"{struct} has no {', '.join(sorted(unknown))}")
        for name, kind, width in self.structs[struct]:
            value = values.get(name, 0)
            if kind in self.structs and isinstance(value, dict):
                value = self.pack(kind, **value)
            value = int(value)
            if value >> width:
                raise ValueError(f"{struct}.{name} has {width} bits, too few for {value:#x}")
            packed = packed << width | value
        return packed

    def unpack(self, struct, packed):
        """The fields of a struct, nested structs as dictionaries."""
        values = {}
        packed = int(packed)
        for name, kind, width in reversed(self.structs[struct]):
            value = packed & ((1 << width) - 1)
            values[name] = self.unpack(kind, value) if kind in self.structs else value
            packed >>= width
        return dict(reversed(values.items()))


PACKAGE_TYPES = Package()
SERVICE_TYPES = Package(RTL / package for package in SERVICE_PACKAGES)
pack = PACKAGE_TYPES.pack
unpack = PACKAGE_TYPES.unpack
constant = PACKAGE_TYPES.constants.__getitem__
width = PACKAGE_TYPES.widths.__getitem__
