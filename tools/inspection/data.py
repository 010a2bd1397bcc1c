"""Clean data: seeded generators of many types, and installed files that hold no machine code. Yields `Piece`s of the kind `clean`.

A generator is a type with a seed, which decides its schema, vocabulary, distributions and sizes; generators are what the corpus
splits. One type is held out: all of its generators are for tests.
"""

import base64
import gzip
import io
import json
import os
import pathlib
import pickle
import random
import sqlite3
import tempfile
import zlib

import numpy
import zstandard
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from PIL import Image, ImageDraw

from pieces import Piece, owners, split_of

HELD_OUT = "bfloat16"
GENERATORS = {"train": 20, "validate": 12, "test": 12}
# Arrays of numbers differ the most from each other.
NUMBERS = ("int8", "int16", "int32", "int64", "float16", "float32", "float64", "records", "fill")
NUMBER_GENERATORS = 60
BYTES = 256 * 1024
ENGLISH = """the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you were
all her she there would their we him been has when who will no more if out so up said what its about than into them can only other
time new some could these two may first then do any like my now over such our man me even most made after also did many off before
must well back through years where much your way down should because long each just state those people too mister how little good
world make very year still see own work men day get here old life both between being under three never know same last another while
us might great go come since against right came take used himself few house use place during high without again home around small
however found mrs part school thought went say general once upon war left every don does got united number hand course water until
always away public something fact less though far put head think called set almost enough end took yet government system better
night began side going eyes knew find next""".split()
SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo xu za chi she tha qui gro pla str ing er on en al is".split()


class Source:
    """Random numbers of one generator: `chance` for structure, `numbers` for arrays."""

    def __init__(self, name):
        self.chance = random.Random(name)
        self.numbers = numpy.random.default_rng(self.chance.getrandbits(64))
        made = ["".join(self.chance.choices(SYLLABLES, k=self.chance.randrange(1, 5))) for _ in range(300)]
        self.words = self.chance.sample(ENGLISH, 120) + made[:self.chance.randrange(20, 300)]

    def word(self):
        return self.chance.choice(self.words)

    def sentence(self):
        return " ".join(self.chance.choices(self.words, k=self.chance.randrange(3, 14))).capitalize() + "."

    def columns(self):
        """Functions that each make a value of one column of a table."""
        chance = self.chance
        step, scale, width = [0], 10 ** chance.randrange(1, 8), chance.randrange(1, 7)

        def count():
            step[0] += chance.randrange(1, 9)
            return step[0]

        kinds = [
            count, lambda: chance.randrange(scale), lambda: round(chance.gauss(0, scale), width), self.word, self.sentence,
            lambda: f"20{chance.randrange(10, 30)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}",
            lambda: f"{chance.getrandbits(128):032x}", lambda: chance.random() < 0.3, lambda: f"{self.word()}@{self.word()}.{self.word()}",
            lambda: chance.expovariate(1), lambda: chance.choice(self.words[:8]), lambda: f"+{chance.randrange(10**10)}",
            lambda: f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}.{chance.randrange(1000):03}",
        ]
        return [(self.word() + str(index), chance.choice(kinds)) for index in range(chance.randrange(2, 16))]


def repeated(make, size=BYTES):
    """Calls `make` until there are `size` bytes."""
    out = bytearray()
    while len(out) < size:
        part = make()
        out += part if isinstance(part, bytes) else part.encode()
    return bytes(out)


def csv(source):
    columns, mark = source.columns(), source.chance.choice(",;\t|")
    quote = source.chance.choice(['"', ""])
    one = lambda value: f"{quote}{value}{quote}" if isinstance(value, str) else str(value)  # noqa: E731
    end = source.chance.choice(["\n", "\r\n"])
    return repeated(lambda: mark.join(one(make()) for _, make in columns) + end)


def json_text(source):
    columns, indent = source.columns(), source.chance.choice([None, None, 1, 2, 4])

    def record(depth=0):
        made = {name: make() for name, make in columns}
        if depth < 2 and source.chance.random() < 0.3:
            made[source.word()] = [record(depth + 1) for _ in range(source.chance.randrange(3))]
        return made

    return repeated(lambda: json.dumps(record(), indent=indent) + "\n")


def sql(source):
    columns, table = source.columns(), source.word()
    names = ", ".join(name for name, _ in columns)
    one = lambda value: f"'{value}'" if isinstance(value, str) else str(value)  # noqa: E731
    forms = [
        lambda: f"INSERT INTO {table} ({names}) VALUES ({', '.join(one(make()) for _, make in columns)});\n",
        lambda: f"UPDATE {table} SET {columns[0][0]} = {one(columns[0][1]())} WHERE {columns[-1][0]} = {one(columns[-1][1]())};\n",
        lambda: f"SELECT {names} FROM {table} WHERE {columns[0][0]} > {one(columns[0][1]())} ORDER BY 1 LIMIT {source.chance.randrange(99)};\n",
    ]
    weights = [source.chance.random() for _ in forms]
    return repeated(lambda: source.chance.choices(forms, weights)[0]())


def xml(source):
    columns, item = source.columns(), source.word()
    if source.chance.random() < 0.5:
        return repeated(lambda: f"<{item}>" + "".join(f"\n  <{name}>{make()}</{name}>" for name, make in columns) + f"\n</{item}>\n")
    return repeated(lambda: f"<{item} " + " ".join(f'{name}="{make()}"' for name, make in columns) + "/>\n")


def html(source):
    tags = source.chance.sample(["p", "li", "td", "span", "div", "h2", "a", "em", "code"], 5)

    def part():
        tag = source.chance.choice(tags)
        return f'<{tag} class="{source.word()}-{source.word()}" id="{source.word()}{source.chance.randrange(99)}">{source.sentence()}</{tag}>\n'

    return repeated(part)


def log(source):
    columns = source.columns()
    return repeated(lambda: f"[{source.chance.randrange(10**6)}.{source.chance.randrange(10**6):06}] {source.word()}[{source.chance.randrange(9999)}]: "
                    + " ".join(f"{name}={make()}" for name, make in columns) + "\n")


def program_text(source):
    """Text that has the form of a program's."""
    chance, indent = source.chance, source.chance.choice(["    ", "  ", "\t"])
    end = chance.choice([";", ""])

    def line():
        depth = indent * chance.randrange(5)
        a, b, c = source.word(), source.word(), source.word()
        return depth + chance.choice([
            f"if ({a}.{b} == {chance.randrange(99)}) {{", f"{a} = {b}({c}, {chance.randrange(9999)}){end}", f"for {a} in {b}.{c}():",
            f"return {a} + {b} * {c}{end}", f"// {source.sentence()}", f"def {a}_{b}(self, {c}):", f"{a}: {b.capitalize()}<{c}>,", "}",
            f"static const int {a.upper()} = 0x{chance.getrandbits(32):08x}{end}", f'print("{source.sentence()}", {a}){end}', "",
        ]) + "\n"

    return repeated(line)


def prose(source):
    """Text in an alphabet of its own, in UTF-8 or UTF-16."""
    start, letters = source.chance.choice([(0x41, 26), (0x3B1, 24), (0x430, 32), (0x5D0, 27), (0x4E00, 3_000), (0x3042, 80), (0xAC00, 2_000)])
    encoding = source.chance.choice(["utf-8", "utf-8", "utf-16-le"])
    words = ["".join(chr(start + source.chance.randrange(letters)) for _ in range(source.chance.randrange(1, 9))) for _ in range(400)]
    return repeated(lambda: (" ".join(source.chance.choices(words, k=12)) + ".\n").encode(encoding))


def picture(source):
    """A picture of shapes, a gradient and noise."""
    chance, width, height = source.chance, source.chance.randrange(64, 512), source.chance.randrange(64, 512)
    ramp = numpy.linspace(0, chance.randrange(1, 256), width)[None, :, None] + numpy.zeros((height, 1, 3))
    ramp += source.numbers.normal(0, chance.choice([0, 1, 5, 40]), ramp.shape)
    image = Image.fromarray(ramp.clip(0, 255).astype("uint8"))
    draw = ImageDraw.Draw(image)
    for _ in range(chance.randrange(30)):
        box = sorted(chance.sample(range(width), 2)) + sorted(chance.sample(range(height), 2))
        draw.ellipse((box[0], box[2], box[1], box[3]), fill=tuple(chance.choices(range(256), k=3)))
    return image


def image_file(form, **options):
    def make(source):
        def one():
            out = io.BytesIO()
            picture(source).save(out, form, **options)
            return out.getvalue()
        return repeated(one)
    return make


def pdf(source):
    def page():
        lines = "".join(f"BT /F1 {source.chance.randrange(8, 20)} Tf {source.chance.randrange(600)} {source.chance.randrange(800)} Td ({source.sentence()}) Tj ET\n"
                        for _ in range(source.chance.randrange(5, 60)))
        stream = zlib.compress(lines.encode()) if source.chance.random() < 0.7 else lines.encode()
        number = source.chance.randrange(1, 999)
        table = "".join(f"{source.chance.randrange(10**6):010} 00000 n \n" for _ in range(source.chance.randrange(40)))
        return (f"{number} 0 obj\n<< /Type /Page /Parent {number + 1} 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 {number + 2} 0 R >> >> >>\nendobj\n"
                f"{number + 3} 0 obj\n<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n").encode() + stream + f"\nendstream\nendobj\nxref\n{table}".encode()
    return repeated(page)


def compressed(compress):
    def make(source):
        inner = source.chance.choice([csv, json_text, program_text, float32, int32, records])
        level = source.chance.randrange(1, 10)
        return compress(inner(source), level)
    return make


def random_bytes(source):
    return source.numbers.bytes(BYTES)


def ciphertext(source):
    key, nonce = source.numbers.bytes(32), source.numbers.bytes(16)
    algorithm = source.chance.choice([lambda: Cipher(algorithms.AES(key), modes.CTR(nonce)), lambda: Cipher(algorithms.ChaCha20(key, nonce), None)])
    return algorithm().encryptor().update(csv(source))


def real_numbers(source, count):
    chance, numbers = source.chance, source.numbers
    scale = 10.0 ** chance.randrange(-6, 7)
    kind = chance.randrange(7)
    if kind == 0:
        values = numbers.normal(0, scale, count)
    elif kind == 1:
        values = numbers.uniform(0, scale, count)
    elif kind == 2:
        values = numpy.cumsum(numbers.normal(0, scale, count))
    elif kind == 3:
        values = numbers.lognormal(0, 2, count) * scale
    elif kind == 4:
        values = numbers.normal(0, scale, count) * (numbers.random(count) < chance.uniform(0.02, 0.6))
    elif kind == 5:
        values = numpy.maximum(numbers.normal(0, scale, count), 0)
    else:
        values = numbers.integers(0, chance.choice([2, 10, 256, 5_000]), count) * chance.choice([1.0, 0.5, 0.01])
    return values


def floats(form):
    def make(source):
        # A number too large for float16 becomes infinite.
        with numpy.errstate(over="ignore"):
            return real_numbers(source, BYTES // numpy.dtype(form).itemsize).astype(form).tobytes()
    return make


float32 = floats("<f4")


def bfloat16(source):
    bits = real_numbers(source, BYTES // 2).astype("<f4").view("<u4")
    # Rounded to nearest, ties to even.
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


def integers(form):
    def make(source):
        chance, numbers, count = source.chance, source.numbers, BYTES // numpy.dtype(form).itemsize
        largest = 2 ** chance.randrange(1, 8 * numpy.dtype(form).itemsize - 1)
        kind = chance.randrange(7)
        if kind == 0:
            values = numbers.integers(0, largest, count)
        elif kind == 1:
            values = numpy.cumsum(numbers.integers(0, 1 + largest // 4_096 % 100, count))
        elif kind == 2:
            values = numbers.integers(-largest, largest, count)
        elif kind == 3:
            values = numpy.minimum(numbers.zipf(chance.uniform(1.2, 2.5), count), largest)
        elif kind == 4:
            values = numpy.arange(count) * chance.randrange(1, 50)
        elif kind == 5:
            values = numbers.integers(0, largest, count) * (numbers.random(count) < 0.2)
        else:
            values = (numpy.sin(numpy.arange(count) / chance.uniform(3, 300)) * largest + numbers.normal(0, 1 + largest / 50, count)).astype("i8")
        return values.astype(form).tobytes()
    return make


int32 = integers("<i4")


def records(source):
    """Rows of fixed size with fields of several types, as a program stores its structures."""
    chance, numbers = source.chance, source.numbers
    fields = [(f"f{index}", chance.choice(["<i4", "<u2", "u1", "<f4", "<f8", "<i8", "S12", "<u4"])) for index in range(chance.randrange(2, 12))]
    rows = numpy.zeros(BYTES // numpy.dtype(fields).itemsize, fields)
    for name, form in fields:
        if form.startswith("S"):
            rows[name] = [source.word().encode()[:12] for _ in range(len(rows))]
        elif "f" in form:
            rows[name] = numbers.normal(0, 10.0 ** chance.randrange(-2, 5), len(rows))
        elif form == "<i8":
            # Addresses or time stamps.
            rows[name] = chance.choice([0x7F00_0000_0000, 1_700_000_000_000_000, 0x5555_5555_0000]) + numpy.cumsum(numbers.integers(0, 4_096, len(rows))) * 8
        else:
            rows[name] = numbers.integers(0, chance.choice([2, 100, 255]), len(rows))
    return rows.tobytes()


def pickles(source):
    columns = source.columns()
    protocol = source.chance.choice([2, 4, 5])

    def one():
        rows = [{name: make() for name, make in columns} for _ in range(source.chance.randrange(1, 60))]
        return pickle.dumps(source.chance.choice([rows, [tuple(row.values()) for row in rows], {"rows": rows, "weights": source.numbers.normal(0, 1, 50)}]), protocol)

    return repeated(one)


def database(source):
    columns = source.columns()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "database"
        base = sqlite3.connect(file)
        base.execute(f"create table t ({', '.join(name for name, _ in columns)})")
        while file.stat().st_size < BYTES:
            rows = [[make() for _, make in columns] for _ in range(500)]
            base.executemany(f"insert into t values ({', '.join('?' for _ in columns)})", rows)
            if source.chance.random() < 0.1:
                base.execute(f"create index if not exists i on t ({columns[0][0]})")
            base.commit()
        base.close()
        # The file begins with the version of the library.
        return file.read_bytes()[100:]


def fill(source):
    """Memory that is hardly used: long runs of a byte or of a short pattern, with some words between them."""
    chance = source.chance
    patterns = [bytes([chance.choice([0, 0, 255, 255, chance.randrange(256)])]) * chance.choice([1, 4]) for _ in range(3)]
    patterns.append(source.numbers.bytes(chance.randrange(2, 65)))

    def run():
        return (pattern := chance.choice(patterns)) * chance.randrange(1, 1_400 // len(pattern)) + source.word().encode() * chance.randrange(2) + source.numbers.bytes(chance.randrange(12))

    return repeated(run)


def base64_text(source):
    return base64.encodebytes(random_bytes(source)) if source.chance.random() < 0.5 else base64.b64encode(random_bytes(source))


TYPES = {
    "csv": csv, "json": json_text, "sql": sql, "xml": xml, "html": html, "log": log, "source": program_text, "prose": prose,
    "png": image_file("PNG"), "jpeg": image_file("JPEG", quality=80), "bmp": image_file("BMP"), "pdf": pdf,
    "gzip": compressed(lambda data, level: gzip.compress(data, level, mtime=0)), "zstd": compressed(lambda data, level: zstandard.compress(data, level)),
    "random": random_bytes, "ciphertext": ciphertext, "base64": base64_text, "float32": float32, "float64": floats("<f8"), "float16": floats("<f2"),
    "bfloat16": bfloat16, "int8": integers("i1"), "int16": integers("<i2"), "int32": int32, "int64": integers("<i8"), "records": records,
    "pickle": pickles, "database": database, "fill": fill,
}

# Installed data: the folders of a distribution, and what of a file is taken.
ROOTS = ("/usr/share", "/usr/include", "/usr/lib/python3", "/usr/local/go/src", "/usr/local/lib/python3.11")
INSTALLED = {"train": 2_000, "validate": 400, "test": 1_500}
LARGEST = 128 * 1024
CODE_WITHIN = (b"\x7fELF", b"MZ", b"!<arch>\n", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"\0asm", b"BC\xc0\xde", b"go object")
ARCHIVES = {".jar", ".zip", ".whl", ".tar", ".a", ".o", ".syso", ".efi", ".fd", ".bin", ".rom", ".img"}


def installed(packages):
    found = []
    for root in ROOTS:
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name != "testdata"]
            found += [pathlib.Path(folder, name) for name in files]
    found.sort()
    random.Random("installed data").shuffle(found)
    left, kinds = dict(INSTALLED), {}
    for file in found:
        if file.is_symlink() or not file.is_file() or file.stat().st_size < 1_024 or file.suffix in ARCHIVES:
            continue
        # What no package owns is split by folder.
        split = split_of(f"package {packages.get(str(file), file.parent)}")
        ending = file.suffix[:8]
        if not left[split] or kinds.get((split, ending), 0) >= INSTALLED[split] // 8:
            continue
        data = file.read_bytes()[:LARGEST]
        if data.startswith(CODE_WITHIN):
            continue
        left[split] -= 1
        kinds[split, ending] = kinds.get((split, ending), 0) + 1
        yield Piece(split, "clean", "installed", str(file)[1:], data)


def made(name, generator):
    """What a generator of a type makes."""
    return TYPES[name](Source(f"{name} {generator}"))[:BYTES]


def pieces():
    for name in TYPES:
        for split, count in GENERATORS.items():
            if name == HELD_OUT and split != "test":
                continue
            if name in NUMBERS and split == "train":
                count = NUMBER_GENERATORS
            for index in range(count):
                generator = f"{split}{index}"
                yield Piece(split, "clean", name, generator, made(name, generator))
    yield from installed(owners())
