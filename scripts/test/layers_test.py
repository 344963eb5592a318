#!/usr/bin/env python3
"""What layers.py finds in small crates that are made for it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAYERS = Path(__file__).with_name("layers.py")
FLOORS = "low\nmiddle\nhigh\n"


class LayersTest(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)

    def said(self, files: dict[str, str], floors: str | None = FLOORS) -> list[str]:
        """What is said of a crate with modules low, middle and high, and these files."""
        if floors is not None:
            self.write("crate/layers.txt", f"# The lowest first.\n{floors}")
        for file, text in {"lib": "mod high; mod low; mod middle;", "low": "", "middle": "", "high": "", **files}.items():
            self.write(f"crate/src/{file}.rs", text)
        ended = subprocess.run([sys.executable, LAYERS, "crate"], cwd=self.folder, capture_output=True, text=True)
        lines = ended.stderr.splitlines()
        self.assertEqual(ended.returncode, 1 if lines else 0, ended.stderr)
        self.assertTrue(all(line.startswith("layers: ") for line in lines), ended.stderr)
        return [line.removeprefix("layers: ") for line in lines]

    def write(self, file: str, text: str) -> None:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def assert_climbs(self, files: dict[str, str], file: str = "low", used: str = "high") -> None:
        (line,) = self.said(files)
        floors = {"low": 1, "middle": 2, "high": 3}
        expected = f"crate/src/{file}.rs is on floor {floors[file]} and uses {used} on floor {floors[used]} of crate/layers.txt"
        self.assertEqual(line, expected)

    def assert_falls(self, files: dict[str, str]) -> None:
        self.assertEqual(self.said(files), [])

    def test_an_arrow_may_fall(self):
        self.assert_falls({"high": "use crate::low::Low;\nuse crate::middle;", "middle": "fn f() { crate::low::f() }"})

    def test_an_arrow_that_climbs_is_found_however_it_is_written(self):
        for text in (
            "use crate::high::High;",
            "use crate::high;",
            "use crate::{high::{self, High}};",
            "pub(crate) use crate::{high::{High as Other}};",
            "use super::high::High;",
            "use super::{high};",
            "fn f(high: &crate::high::High) {}",
            "fn f() { if true { use crate::high::f; f() } }",
            "mod inside { fn f() { super::super::high::f() } }",
            "macro_rules! m { () => { $crate::high::f() } }",
            "fn f() -> Vec<<crate::high::High as Iterator>::Item> { let _ = 'x'; let _: &'static str = \"//\"; }",
            "use std::{fmt::{self, Write}, io}; use crate::{high::High};",
            "#[cfg(not(test))]\nuse crate::high::High;",
        ):
            with self.subTest(text):
                self.assert_climbs({"low": text})

    def test_tests_comments_and_texts_are_no_arrows(self):
        for text in (
            "#[cfg(test)]\nmod tests { use crate::high::High; fn f() { { } } }",
            "#[cfg(test)]\n#[allow(dead_code)]\nuse crate::high::{High};\nfn f() {}",
            "#[cfg(all(test, unix))]\nfn f() { crate::high::f() }",
            "#[cfg(test)]\nmod tests;",
            "//! [`crate::high`]\n/* crate::high::f() */ // crate::high::f()\n",
            'const A: &str = "\\" crate::high::f()"; const B: &str = r#"" crate::high::f()"#;',
            "pub(in crate::high) fn f() {}",
            "use other::high::High; fn f() { high::f(); let _: [u8; 1] = [0]; }",
        ):
            with self.subTest(text):
                self.assert_falls({"low": text, "low/tests": "use crate::high::High;"})

    def test_what_follows_tests_counts(self):
        self.assert_climbs({"low": "#[cfg(test)]\nmod tests { fn f() { } }\nuse crate::high::High;"})
        self.assert_climbs({"low": "struct S { #[cfg(test)] a: [u8; 2] }\nuse crate::high::High;"})

    def test_a_path_is_followed_to_the_file_that_it_ends_in(self):
        lib = "mod high; mod low; mod middle; pub use high::High; pub(crate) use low::Low;"
        self.assert_climbs({"lib": lib, "low": "use crate::High;"})
        self.assert_falls({"lib": lib, "middle": "use crate::Low;"})
        self.assert_climbs({"middle": "use crate::high::Deep;", "high": "pub use crate::low::Low;"}, file="middle")
        self.assert_falls({"middle": "use crate::high::Deep;", "high": "pub use crate::low::Low as Deep;"})
        self.assert_climbs({"low": "use crate::middle as m; fn f() { m::f() }"}, used="middle")

    def test_what_the_root_itself_has_is_above_all_floors(self):
        (line,) = self.said({"high": "use crate::ROOT;", "lib": "mod high; mod low; mod middle; const ROOT: u8 = 0;"})
        self.assertEqual(line, "crate/src/high.rs is on floor 3 and uses what is in crate/src/lib.rs, above all floors")

    def test_a_glob_may_not_hide_what_is_used(self):
        self.assert_falls({"middle": "use crate::low::*;", "low": "pub const A: u8 = 0;"})
        self.assert_falls({"middle": "use crate::low::Kind::*;", "low": "use std::fmt; enum Kind { A }"})
        (line,) = self.said({"middle": "use crate::low::*;", "low": "pub use std::fmt;"})
        self.assertIn("crate/src/middle.rs uses all of low", line)

    def test_a_module_stands_for_those_in_it_that_are_not_named(self):
        files = {"low": "mod part;", "low/part": "use crate::high::High;"}
        (line,) = self.said(files)
        self.assertIn("crate/src/low/part.rs is on floor 1 and uses high on floor 3", line)
        self.assertEqual(self.said(files, "low\nmiddle\nhigh low::part\n"), [])

    def test_files_of_a_module_in_other_places_are_read(self):
        here = "mod high; mod middle;\n"
        self.assertEqual(len(self.said({"lib": here + "mod low;", "low": "mod part;", "low/part/mod": "use crate::high::H;"})), 1)
        self.assertEqual(len(self.said({"lib": here + '#[path = "other.rs"]\nmod low;', "other": "use crate::high::H;"})), 1)
        either = '#[cfg_attr(a, path = "a.rs")]\n#[cfg_attr(b, path = "b.rs")]\nmod low;'
        self.assertEqual(len(self.said({"lib": here + either, "a": "", "b": "use crate::high::H;"})), 1)

    def test_a_circle_may_have_four_files(self):
        def ring(count: int) -> dict[str, str]:
            names = [f"a{number}" for number in range(count)]
            uses = {name: f"use crate::{other}::f;" for name, other in zip(names, names[1:] + names[:1])}
            return {"lib": "mod high; mod low; mod middle;" + "".join(f"mod {name};" for name in names), **uses}

        floors = FLOORS + "a0 a1 a2 a3 a4\n"
        self.assertEqual(self.said(ring(4), floors.replace(" a4", "")), [])
        (line,) = self.said(ring(5), floors)
        self.assertEqual(line, "crate/src has a circle of 5 files, more than 4: a0.rs a1.rs a2.rs a3.rs a4.rs")

    def test_floors_name_each_module_once_and_nothing_else(self):
        (line,) = self.said({}, None)
        self.assertIn("crate/layers.txt is missing", line)
        (line,) = self.said({}, "low\nmiddle\n")
        self.assertEqual(line, "crate/src/high.rs is on no floor of crate/layers.txt; name high there")
        (line,) = self.said({}, FLOORS + "higher\n")
        self.assertEqual(line, "crate/layers.txt names higher, and there is no such module")
        (line,) = self.said({}, FLOORS + "high\n")
        self.assertEqual(line, "crate/layers.txt names high twice")

    def test_all_crates_of_a_workspace_are_looked_at(self):
        self.said({"low": "use crate::high::High;"})
        self.write("Cargo.toml", '[workspace]\nmembers = ["cra*"]\n')
        ended = subprocess.run([sys.executable, LAYERS], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("crate/src/low.rs is on floor 1", ended.stderr)


if __name__ == "__main__":
    unittest.main()
