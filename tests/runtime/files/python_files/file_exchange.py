"""What the test cases of exchange.py and torch_exchange.py share: giro's programs, and a path for a file."""

import pathlib
import subprocess
import sys
import tempfile
import unittest


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


class FileTest(unittest.TestCase):
    leaves = tool = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "a.safetensors"


def main():
    FileTest.leaves = sys.argv.pop(1)
    FileTest.tool = sys.argv.pop(1) if len(sys.argv) > 1 else None
    unittest.main()
