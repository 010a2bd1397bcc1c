"""Reads the machine code of ELF files, little-endian, of 32 and 64 bits."""

import struct

ALLOCATED, EXECUTABLE = 2, 4
PROGRAM_BITS, SYMBOL_TABLE, FUNCTION = 1, 2, 2
# Too little to say anything about; the stubs of the linker and start-up code.
SHORTEST = 64


class NotElf(ValueError):
    """The file is not an ELF file that this module reads."""


class Section:
    """A section header and the section's bytes."""

    def __init__(self, data, header, is_wide):
        layout = "<IIQQQQIIQQ" if is_wide else "<IIIIIIIIII"
        self.name_at, self.kind, self.flags, self.address, start, size, self.link = struct.unpack_from(layout, data, header)[:7]
        self.bytes = data[start:start + size] if self.kind == PROGRAM_BITS or self.kind == SYMBOL_TABLE or self.kind == 3 else b""
        self.name = ""


def sections(data):
    """All sections of a file, with their names."""
    if data[:4] != b"\x7fELF" or len(data) < 64 or data[5] != 1:
        raise NotElf("no little-endian ELF file")
    is_wide = data[4] == 2
    start = struct.unpack_from("<Q" if is_wide else "<I", data, 40 if is_wide else 32)[0]
    size, count, names = struct.unpack_from("<HHH", data, 58 if is_wide else 46)
    found = [Section(data, start + size * index, is_wide) for index in range(count)]
    for section in found:
        text = found[names].bytes
        section.name = text[section.name_at:text.index(b"\0", section.name_at)].decode()
    return found


def code(data):
    """The executable sections of a file, one after the other."""
    wanted = ALLOCATED | EXECUTABLE
    return b"".join(
        section.bytes for section in sections(data)
        if section.kind == PROGRAM_BITS and section.flags & wanted == wanted and len(section.bytes) >= SHORTEST
    )


def functions(data):
    """(name, code) of each function of a file's symbol table, by address."""
    is_wide, all_sections = data[4] == 2, sections(data)
    found = {}
    for table in all_sections:
        if table.kind != SYMBOL_TABLE:
            continue
        names = all_sections[table.link].bytes
        entry = 24 if is_wide else 16
        for at in range(0, len(table.bytes), entry):
            if is_wide:
                name_at, kind, _, index, address, size = struct.unpack_from("<IBBHQQ", table.bytes, at)
            else:
                name_at, address, size, kind, _, index = struct.unpack_from("<IIIBBH", table.bytes, at)
            if kind & 15 != FUNCTION or not 0 < index < len(all_sections) or not size:
                continue
            section = all_sections[index]
            start = address - section.address
            name = names[name_at:names.index(b"\0", name_at)].decode(errors="replace")
            found[address] = (name, section.bytes[start:start + size])
    return [found[address] for address in sorted(found)]
