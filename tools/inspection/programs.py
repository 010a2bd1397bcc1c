"""Machine code: programs compiled here, and the installed ones. Yields `Piece`s of the kind `code`.

What is split is the family of a C kernel, the package of a Go function, the package of an installed program. The compiler that is
held out is rustc: all that it compiled is for tests.
"""

import os
import pathlib
import random
import subprocess
import tempfile

import elf
import kernels
from pieces import Piece, owners, split_of

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")
SPLITS = {"train": ("strings", "sorting", "lists", "hashing", "matrices", "machines", "buffers"), "validate": ("bits", "signals"),
          "test": ("trees", "messages", "grids")}
# Compiler, target, and the flags of the target.
COMPILERS = [
    ("gcc", "x86-64", ["gcc"]),
    ("clang", "x86-64", ["clang", "--target=x86_64-linux-gnu"]),
    ("clang", "aarch64", ["clang", "--target=aarch64-linux-gnu"]),
    ("clang", "arm", ["clang", "--target=armv7-linux-gnueabihf", "-marm"]),
    ("clang", "thumb", ["clang", "--target=armv7-linux-gnueabihf", "-mthumb"]),
    ("clang", "riscv64", ["clang", "--target=riscv64-linux-gnu", "-march=rv64gc"]),
]
GO_TARGETS = {"amd64": "x86-64", "arm64": "aarch64", "arm": "arm", "riscv64": "riscv64"}
GO_PROGRAM = """package main
import (
    "archive/zip"; "bufio"; "compress/bzip2"; "compress/flate"; "container/heap"; "encoding/base64"; "encoding/csv"; "encoding/gob"
    "encoding/hex"; "encoding/json"; "encoding/xml"; "fmt"; "go/format"; "go/types"; "html/template"; "image/jpeg"; "image/png"
    "index/suffixarray"; "math/big"; "os"; "regexp"; "sort"; "strings"; "text/tabwriter"; "time"
)
type ints []int
func (x ints) Len() int { return len(x) }
func (x ints) Less(a, b int) bool { return x[a] < x[b] }
func (x ints) Swap(a, b int) { x[a], x[b] = x[b], x[a] }
func (x *ints) Push(v any) { *x = append(*x, v.(int)) }
func (x *ints) Pop() any { v := (*x)[0]; *x = (*x)[1:]; return v }
func main() {
    in := bufio.NewReader(os.Stdin); text, _ := in.ReadString(0); h := &ints{3, 1}; heap.Init(h); sort.Sort(h)
    rows, _ := csv.NewReader(strings.NewReader(text)).ReadAll(); var v any; json.Unmarshal([]byte(text), &v); xml.Unmarshal([]byte(text), &v)
    gob.NewEncoder(os.Stdout).Encode(rows); src, _ := format.Source([]byte(text)); t, _ := template.New("a").Parse(text); t.Execute(os.Stdout, v)
    i, _ := png.Decode(in); jpeg.Encode(os.Stdout, i, nil); x := suffixarray.New(src); w := tabwriter.NewWriter(os.Stdout, 1, 2, 3, 4, 0)
    z, _ := zip.OpenReader(text); f, _ := flate.NewWriter(w, 9); c := types.Config{}; p, _ := c.Check("a", nil, nil, nil)
    fmt.Fprintln(f, rows, v, x, z, p, bzip2.NewReader(in), base64.StdEncoding, hex.Dump(src), regexp.MustCompile(text), new(big.Int).Exp(big.NewInt(2), big.NewInt(99), nil), time.Now())
}
"""
RUST_PROGRAMS = {
    "words": """use std::collections::{BTreeMap, HashMap}; use std::io::Read;
        fn main() { let mut text = String::new(); std::io::stdin().read_to_string(&mut text).unwrap(); let mut count: HashMap<String, usize> = HashMap::new();
        for word in text.split_whitespace() { *count.entry(word.to_lowercase()).or_default() += 1; }
        let order: BTreeMap<_, _> = count.into_iter().map(|(word, n)| ((std::cmp::Reverse(n), word), n)).collect(); for ((_, word), n) in order.iter().take(20) { println!("{n:>6} {word}"); } }""",
    "graph": """use std::collections::{BinaryHeap, VecDeque, HashSet}; use std::cmp::Reverse;
        fn main() { let n: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(100); let edges: Vec<Vec<(usize, u64)>> = (0..n).map(|a| (1..5).map(|k| ((a * k * 7 + 3) % n, (a ^ k) as u64)).collect()).collect();
        let mut far = vec![u64::MAX; n]; let mut heap = BinaryHeap::from([Reverse((0, 0))]); while let Some(Reverse((d, a))) = heap.pop() { if d >= far[a] { continue } far[a] = d; for &(b, w) in &edges[a] { heap.push(Reverse((d + w, b))); } }
        let mut seen = HashSet::new(); let mut queue = VecDeque::from([0]); while let Some(a) = queue.pop_front() { if seen.insert(a) { queue.extend(edges[a].iter().map(|e| e.0)); } } println!("{:?} {}", &far[..far.len().min(9)], seen.len()); }""",
    "server": """use std::io::{BufRead, BufReader, Write}; use std::net::TcpListener; use std::sync::{Arc, Mutex}; use std::thread;
        fn main() -> std::io::Result<()> { let all = Arc::new(Mutex::new(Vec::<String>::new())); let socket = TcpListener::bind("127.0.0.1:0")?; for stream in socket.incoming() { let (mut stream, all) = (stream?, all.clone());
        thread::spawn(move || -> std::io::Result<()> { let mut line = String::new(); let mut reader = BufReader::new(stream.try_clone()?); while reader.read_line(&mut line)? > 0 { all.lock().unwrap().push(line.trim().into()); writeln!(stream, "{} lines", all.lock().unwrap().len())?; line.clear(); } Ok(()) }); } Ok(()) }""",
}
# Bytes of one installed program that are taken.
LARGEST = 256 * 1024
INSTALLED = {"train": 300, "validate": 80, "test": 200}
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, **options)


def compiled_c(folder):
    for split, families in SPLITS.items():
        for family in families:
            source = folder / "kernel.c"
            source.write_text(kernels.program(family, random.Random(family)))
            for compiler, target, command in COMPILERS:
                for level in LEVELS:
                    run([*command, level, "-w", "-fPIC", "-ffreestanding", "-c", source, "-o", folder / "kernel.o"])
                    run(["ld.lld", "-shared", "-z", "notext", folder / "kernel.o", "-o", folder / "kernel.so"])
                    yield Piece(split, "code", f"{compiler}/{target}", f"{family}{level}", elf.code((folder / "kernel.so").read_bytes()))


def go_package(name):
    """The package of a symbol: `encoding/json.(*decodeState).array` -> `encoding/json`."""
    path, slash, rest = name.rpartition("/")
    return path + slash + rest.split(".")[0]


def compiled_go(folder):
    (folder / "main.go").write_text(GO_PROGRAM)
    for architecture, target in GO_TARGETS.items():
        environment = os.environ | {"GOARCH": architecture, "GOOS": "linux", "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
        run(["go", "build", "-trimpath", "-o", folder / "program", folder / "main.go"], env=environment)
        packages = {}
        for name, code in elf.functions((folder / "program").read_bytes()):
            packages.setdefault(go_package(name), []).append(code)
        for package, codes in sorted(packages.items()):
            if sum(map(len, codes)) >= 4 * elf.SHORTEST:
                yield Piece(split_of(f"go {package}"), "code", f"go/{target}", package, b"".join(codes)[:2 * LARGEST])


def compiled_rust(folder):
    for name, text in RUST_PROGRAMS.items():
        (folder / "main.rs").write_text(text)
        for level in "0123s":
            run(["rustc", "--edition", "2021", "-C", f"opt-level={level}", "-o", folder / "program", folder / "main.rs"])
            yield Piece("test", "code", "rustc/x86-64", f"{name}-O{level}", elf.code((folder / "program").read_bytes())[:2 * LARGEST])
    root = pathlib.Path(run(["rustc", "--print", "sysroot"], text=True).stdout.strip())
    for file in sorted((root / "bin").iterdir()):
        try:
            code = elf.code(file.read_bytes())
        except elf.NotElf:
            continue
        yield Piece("test", "code", "rustc/x86-64", file.name, code[len(code) // 2:][:4 * LARGEST])


def installed(packages):
    left = dict(INSTALLED)
    files = [*pathlib.Path("/usr/bin").iterdir(), *LIBRARIES.glob("*.so*")]
    files = sorted({file for file in files if file.is_file() and not file.is_symlink() and str(file) in packages})
    random.Random("installed").shuffle(files)
    for file in files:
        package = packages[str(file)]
        split = split_of(f"package {package}")
        try:
            data = file.read_bytes()
            code = elf.code(data) if left[split] else b""
        except elf.NotElf:
            continue
        # Programs in Rust and Go would give away the compiler that is held out, and packages that are.
        if len(code) < 4_096 or b"rustc" in data or b"Go build" in data:
            continue
        left[split] -= 1
        start = random.Random(str(file)).randrange(max(len(code) - LARGEST, 1))
        yield Piece(split, "code", "installed/x86-64", f"{package}/{file.name}", code[start:start + LARGEST])


def pieces():
    with tempfile.TemporaryDirectory() as folder:
        for compiled in (compiled_c, compiled_go, compiled_rust):
            yield from compiled(pathlib.Path(folder))
    yield from installed(owners())
