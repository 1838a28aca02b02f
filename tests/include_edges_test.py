"""Checks that include_edges.py names file and rule for what it forbids."""

import pathlib
import tempfile
import unittest

import include_edges

GOOD = {
    "docs/developers.md": "```text\nbase  (base/walled)  top  (top/dialect)\n```\n",
    "cmake/public_headers.txt": "base/a.h\ntop/d.h\n",
    "base/README.md": "What is below.\n", "base/walled/README.md": "What is hidden.\n", "top/README.md": "What is above.\n",
    "top/dialect/README.md": "Another interface.\n",
    "base/a.h": "#include <vector>\n", "base/a.cpp": "#include <giro/base/a.h>\n#include \"base/b.h\"\n", "base/b.h": "",
    "base/walled/w.h": "", "base/walled/w.cpp": "#include \"base/walled/w.h\"\n#include <fmt/format.h>\n",
    "top/d.h": "#include <giro/base/a.h>\n", "top/dialect/e.h": "#include <giro/top/d.h>\n",
    "samples/s.cpp": "#include <giro/top/d.h>\n", "tests/t/t.cpp": "#include \"base/walled/w.h\"\n",
}


class IncludeEdges(unittest.TestCase):
    def errors(self, **changes):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**GOOD, **changes}.items():
                if text is not None:
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text)
            return include_edges.check(root)

    def expect(self, words, changes):
        errors = self.errors(**changes)
        self.assertEqual(len(errors), 1, errors)
        for word in words:
            self.assertIn(word, errors[0])

    def test_good(self):
        self.assertEqual(self.errors(), [])

    def test_bad(self):
        for words, changes in [
            (["base/a.h:1", "a public header includes a private one"], {"base/a.h": '#include "base/b.h"\n'}),
            (["base/a.h:1", "a public header includes the standard library"], {"base/a.h": "#include <fmt/format.h>\n"}),
            (["new", "has its place in the list of docs/developers.md"],
             {"top/new/f.h": "", "top/new/README.md": "A new one.\n"}),
            (["there is no folder more"], {"docs/developers.md": GOOD["docs/developers.md"].replace("top ", "top more ")}),
            (["top/g.h", "a source of its name is in base"], {"top/g.h": "", "base/g.cpp": ""}),
            (["base/b.h:1", "top comes after base"], {"base/b.h": "#include <giro/top/d.h>\n"}),
            (["top/f.cpp:1", "base/walled in parentheses"], {"top/f.cpp": '#include "base/walled/w.h"\n'}),
            (["top/f.cpp:1", "is private"], {"top/f.cpp": "#include <giro/base/b.h>\n"}),
            (["top/f.cpp:1", "is included as <giro/base/a.h>"], {"top/f.cpp": '#include "base/a.h"\n'}),
            (["top/f.cpp:1", "no such header"], {"top/f.cpp": "#include <giro/base/c.h>\n"}),
            (["top/f.cpp:1", "a header of giro's is included as"], {"top/f.cpp": "#include <base/b.h>\n"}),
            (["more", "has its place in the list of docs/developers.md"], {"more/f.h": "", "more/README.md": "More.\n"}),
            (["base stands twice"], {"docs/developers.md": GOOD["docs/developers.md"].replace("top ", "base top ")}),
            (["docs/developers.md", "found none"], {"docs/developers.md": "# Nothing\n"}),
            (["samples/s.cpp:1", "a sample includes"], {"samples/s.cpp": '#include "../base/b.h"\n'}),
            (["top/f.cpp:1", "not the path of a header"], {"top/f.cpp": '#include "c.h"\n'}),
            (["samples/s.cpp:1", "a sample includes public headers only"], {"samples/s.cpp": '#include "base/b.h"\n'}),
            (["base/README.md", "its first line"], {"base/README.md": None}),
            (["public_headers.txt: there is no base/a.h"], {"base/a.h": None}),
            (["headers include each other", "base/b.h"], {"base/b.h": '#include "base/c.h"\n', "base/c.h": '#include "base/b.h"\n'}),
            (["folders include each other", "tests/t"],
             {"tests/t/t.cpp": '#include "tests/u/u.h"\n', "tests/u/u.cpp": '#include "tests/t/t.h"\n',
              "tests/u/u.h": "", "tests/t/t.h": ""}),
        ]:
            with self.subTest(words=words):
                self.expect(words, changes)

    def test_a_backend_carries_out_what_another_folder_declares(self):
        order = {"docs/developers.md": GOOD["docs/developers.md"].replace("top ", "(base/cuda) top ")}
        self.assertEqual(self.errors(**order, **{"base/h.h": "", "base/cuda/h.cpp": "", "base/cuda/README.md": "CUDA.\n"}), [])


if __name__ == "__main__":
    unittest.main()
