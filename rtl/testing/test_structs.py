"""structs: a name that is declared twice is refused."""

import pytest

from structs import Package

SHARED = """
package shared_pkg;
  localparam int unsigned Bits = 8;
  typedef logic [Bits-1:0] byte_t;
  typedef enum logic [1:0] { ColorRed, ColorGreen = 2 } color_e;
  typedef struct packed { color_e color; byte_t [1:0] bytes; } paint_t;
endpackage
"""


def package(folder, own):
    paths = [folder / "shared_pkg.sv", folder / "own_pkg.sv"]
    for path, text in zip(paths, (SHARED, own)):
        path.write_text(text)
    return Package(paths)


def test_names_of_both_packages(tmp_path):
    read = package(tmp_path, "typedef struct packed { paint_t paint; logic dry; } wall_t;")
    assert read.widths["wall_t"] == 19
    packed = read.pack("wall_t", paint=dict(color=read.constants["ColorGreen"], bytes=0x1234), dry=1)
    assert packed == (2 << 16 | 0x1234) << 1 | 1
    assert read.unpack("wall_t", packed)["paint"] == dict(color=2, bytes=0x1234)


@pytest.mark.parametrize("own, name", [
    ("typedef struct packed { byte_t thickness; } paint_t;", "paint_t"),
    ("typedef enum logic { Dry, Wet } paint_t;", "paint_t"),
    ("typedef logic [3:0] byte_t;", "byte_t"),
    ("typedef enum logic { ColorRed } tone_e;", "ColorRed"),
    ("localparam int unsigned Bits = 4;", "Bits"),
])
def test_a_name_of_another_package_is_refused(tmp_path, own, name):
    with pytest.raises(ValueError, match=f"^own_pkg.sv: {name} is declared in shared_pkg.sv already$"):
        package(tmp_path, own)


def test_a_name_of_the_same_package_is_refused(tmp_path):
    with pytest.raises(ValueError, match="^own_pkg.sv: wall_t is declared in own_pkg.sv already$"):
        package(tmp_path, "typedef logic wall_t; typedef struct packed { logic dry; } wall_t;")
