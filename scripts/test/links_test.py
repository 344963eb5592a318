#!/usr/bin/env python3
"""What links.py finds in small repositories that are made for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LINKS = Path(__file__).with_name("links.py").resolve()
DOCS = "docs"  # apart from the names behind it, so that links.py does not look for them here


class LinksTest(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)
        if not shutil.which("git"):
            self.skipTest("git is not installed")
        subprocess.run(["git", "init", "--quiet", self.folder], check=True)

    def said(self, files: dict[str, str]) -> list[str]:
        """What is said of a repository with these files and a document with two headings."""
        for file, text in {f"{DOCS}/pauses.md": "# Pauses\n\n## What `one` request pays\n", **files}.items():
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        ended = subprocess.run([sys.executable, LINKS], cwd=self.folder, capture_output=True, text=True)
        lines = ended.stderr.splitlines()
        self.assertEqual(ended.returncode, 1 if lines else 0, ended.stderr)
        return lines

    def test_links_that_lead_somewhere_are_passed_over(self) -> None:
        text = f"[a]({DOCS}/pauses.md) [b]({DOCS}/pauses.md#what-one-request-pays) [c]({DOCS}) [d](https://example.org/x.md) [e](#top)\n\n# Top\n"
        self.assertEqual(self.said({"README.md": text}), [])

    def test_a_link_to_no_file_is_named_with_its_line(self) -> None:
        self.assertEqual(self.said({"README.md": "one\n[a](gone.md)\n"}), ["links: README.md:2: gone.md does not exist"])

    def test_a_link_counts_from_its_file(self) -> None:
        said = self.said({f"{DOCS}/guide/one.md": "[a](../pauses.md) [b](pauses.md)"})
        self.assertEqual(said, [f"links: {DOCS}/guide/one.md:1: pauses.md does not exist"])

    def test_a_link_to_no_heading_is_named(self) -> None:
        said = self.said({"README.md": f"[a]({DOCS}/pauses.md#gone)"})
        self.assertIn(f"links: README.md:1: {DOCS}/pauses.md#gone has no such heading", said)

    def test_pictures_are_links(self) -> None:
        said = self.said({"README.md": '<img src="a.svg">\n![b](b.svg)\n'})
        self.assertEqual(said, ["links: README.md:1: a.svg does not exist", "links: README.md:2: b.svg does not exist"])

    def test_a_comment_that_names_no_document_is_named(self) -> None:
        said = self.said({"a.rs": f"// {DOCS}/gone.md says why, {DOCS}/pauses.md how\n"})
        self.assertEqual(said, [f"links: a.rs:1: {DOCS}/gone.md does not exist"])

    def test_code_in_a_document_is_no_link(self) -> None:
        self.assertEqual(self.said({"README.md": "```\n[a](gone.md)\n```\n"}), [])

    def test_what_a_merge_has_left_is_named(self) -> None:
        begin, end = "<" * 7 + " HEAD", ">" * 7 + " other"
        said = self.said({"a.c": f"{begin}\none\n=======\ntwo\n{end}\n", "b.md": f"    {begin}\n=======\n"})
        self.assertEqual(said, [f"links: a.c:1: {begin} is left of a merge", f"links: a.c:5: {end} is left of a merge"])

    def test_a_name_in_code_counts_and_one_that_is_part_of_another_path_does_not(self) -> None:
        said = self.said({"README.md": f"```\nls {DOCS}/gone.md\n```\n", "a.py": f"# x/{DOCS}/gone.md\n"})
        self.assertEqual(said, [f"links: README.md:2: {DOCS}/gone.md does not exist"])

    def test_without_a_repository_it_is_one_line(self) -> None:
        shutil.rmtree(self.folder / ".git")
        for environment in ({**os.environ, "GIT_CEILING_DIRECTORIES": str(self.folder.parent)}, {"PATH": ""}):
            ended = subprocess.run([sys.executable, LINKS], cwd=self.folder, env=environment, capture_output=True, text=True)
            self.assertEqual((ended.returncode, ended.stderr.count("\n")), (1, 1), ended.stderr)
            self.assertRegex(ended.stderr, "^links: git ")


if __name__ == "__main__":
    unittest.main()
