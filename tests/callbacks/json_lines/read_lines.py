"""Reads what `write_events lines` writes; see json_lines_test.py."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import duckdb
import orjson
import pandas
import pyarrow
import pyarrow.json

WRITE_EVENTS = sys.argv.pop()

# A number that is not finite is missing.
EXPECTED = {"loss": [0.5, 0.25, None, None, None, 1.5], "late": [None, None, 3.0, 2.0, 1.0, 0.5]}
FILES = {"history.jsonl": "metrics", "logger.jsonl": "metrics", "writer.jsonl": "scalars"}


class JsonLines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([WRITE_EVENTS, "lines", cls.folder.name], check=True)

    def each(self):
        for name, field in FILES.items():
            for entry, expected in EXPECTED.items():
                with self.subTest(file=name, entry=entry):
                    yield pathlib.Path(self.folder.name) / name, field, entry, expected

    def test_json_and_orjson(self):
        for path, field, entry, expected in self.each():
            lines = path.read_text().splitlines()
            for loads in (json.loads, orjson.loads):
                self.assertEqual([loads(line)[field][entry] for line in lines], expected)

    def test_pandas(self):
        for path, field, entry, expected in self.each():
            column = pandas.json_normalize(pandas.read_json(path, lines=True)[field])[entry]
            self.assertEqual(column.dtype, "float64")
            self.assertEqual([None if pandas.isna(value) else value for value in column], expected)

    def test_pyarrow(self):
        for path, field, entry, expected in self.each():
            column = pyarrow.json.read_json(path).column(field).combine_chunks().field(entry)
            self.assertEqual(column.type, pyarrow.float64())
            self.assertEqual(column.to_pylist(), expected)

    def test_duckdb(self):
        for path, field, entry, expected in self.each():
            read = f"SELECT typeof({field}.{entry}), {field}.{entry} FROM read_json('{path}')"
            rows = duckdb.sql(read).fetchall()
            self.assertEqual({kind for kind, _ in rows}, {"DOUBLE"})
            self.assertEqual([value for _, value in rows], expected)


if __name__ == "__main__":
    unittest.main()
