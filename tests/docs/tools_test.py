#!/usr/bin/env python3
"""Checks code_blocks.py, and docs/api.py, which marks the headers' comments for Doxygen.

usage: tools_test.py COMPILER
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve().parent
# The names that code_blocks.py takes from giro.
GIRO = """#pragma once
#include <vector>
namespace giro {
namespace nn { struct Layer {}; }
namespace optim {}
namespace jaxloop {}
namespace flip {}
struct Dataset {};
struct TrainState {};
struct Batch {};
struct Logs {};
template <class F> int jit(F) { return 0; }
template <class S, class B> struct Task { int when, what; };
}
"""


class CodeBlocks(unittest.TestCase):
    def check(self, page):
        """The exit code and the output for a page."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "include" / "giro").mkdir(parents=True)
            (root / "include" / "giro" / "giro.h").write_text(GIRO, encoding="utf-8")
            for name in ["jaxloop.h", "flip.h"]:
                (root / "include" / "giro" / name).write_text("#pragma once\n", encoding="utf-8")
            (root / "page.md").write_text(textwrap.dedent(page), encoding="utf-8")
            result = subprocess.run([sys.executable, HERE / "code_blocks.py", COMPILER, "include", "page.md"], cwd=root,
                                    capture_output=True, text=True, check=False)
            return result.returncode, result.stdout + result.stderr

    def test_kinds_of_blocks(self):
        code, said = self.check("""\
            <!-- cpp
            extern int declared;
            -->
            ```cpp
            int twice(int x) {
              return 2 * x + declared;
            }
            ```
            ```cpp
            const int four = twice(2);
            twice(four);
            ```
            - In a list:
              ```cpp
              {1, twice(2)},
              ```
            <!-- fragment -->
            ```cpp
            int f(…);
            ```
            ```cpp
            #include <string>
            std::string text = "a program";
            int main() { return text.empty(); }
            ```
            """)
        self.assertEqual((code, said), (0, "4 blocks compiled, 1 fragments\n"))

    def test_an_error_names_page_and_line(self):
        for page, line in [("# Text\n\n```cpp\nint a = 1;\nint b = missing;\n```\n", "page.md:5:"),
                           ("```cpp\nint main() { return missing; }\n```\n", "page.md:2:"),
                           ("- List:\n  ```cpp\n  {1, missing},\n  ```\n", "page.md:3:"),
                           ("<!-- cpp\nint a = missing;\n-->\n```cpp\nint b = 2;\n```\n", "page.md:2:")]:
            with self.subTest(page):
                code, said = self.check(page)
                self.assertEqual(code, 1)
                self.assertIn(line, said)

    def test_a_page_without_blocks_is_an_error(self):
        self.assertEqual(self.check("# Text\n")[0], 1)


class Api(unittest.TestCase):
    def documented(self, text):
        spec = importlib.util.spec_from_file_location("api", HERE.parent.parent / "docs" / "api.py")
        api = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(api)
        return "\n".join(api.documented(textwrap.dedent(text).splitlines()))

    def test_comments_become_documentation(self):
        self.assertIn("/// Of a \\< b", self.documented("// Of a < b\nint f();\n"))
        self.assertIn("int x = 0;  /**< \\brief in seconds */", self.documented("int x = 0;  // in seconds\n"))
        self.assertIn("/**< \\brief in\n               seconds */",
                      self.documented("int x = 0;  // in\n            // seconds\n"))

    def test_indented_lines_are_code(self):
        text = self.documented("// Use:\n//   f(1);\n//\n// Then.\nint f(int);\n")
        self.assertIn("/// Use: @code{.cpp}\n///   f(1); @endcode\n///\n/// Then.\n", text)

    def test_a_comment_before_a_blank_line_is_of_the_file(self):
        self.assertIn("/// \\file\n/// About all of it.\n\nint f();",
                      self.documented("namespace a {\n\n// About all of it.\n\nint f();\n"))

    def test_line_numbers_stay(self):
        for header in sorted((HERE.parent.parent / "kernels" / "nn").glob("*.h")):
            text = header.read_text(encoding="utf-8")
            self.assertEqual(len(self.documented(text).splitlines()), len(text.splitlines()), header)


if __name__ == "__main__":
    COMPILER = sys.argv.pop(1)
    unittest.main()
