#!/usr/bin/env python3
"""pandas, pyarrow, DuckDB and orjson read the JSON lines of a run that diverged, as numbers.

usage: json_lines_test.py VENV WRITE_EVENTS

VENV is a folder for a virtual environment with the packages from PyPI, created if it does not exist. Exits with 77 and
the reason if that cannot be done within two minutes.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import python_environment


def main(venv, write_events):
    script = pathlib.Path(__file__).parent / "json_lines" / "read_lines.py"
    packages = ["pandas", "pyarrow", "duckdb", "orjson"]
    return python_environment.run(venv, packages, script, write_events, seconds=120)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
