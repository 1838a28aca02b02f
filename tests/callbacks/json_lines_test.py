#!/usr/bin/env python3
"""pandas, pyarrow, DuckDB and orjson read the JSON lines of a run that diverged, as numbers.

usage: json_lines_test.py VENV WRITE_EVENTS

VENV is a folder for a virtual environment with the packages from PyPI, created if it does not exist. Exits with 77 and
the reason if that cannot be done within two minutes.
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import python_environment


def main(venv, write_events):
    python = python_environment.make(venv, ["pandas", "pyarrow", "duckdb", "orjson"], seconds=120)
    if python is None:
        return 77
    cases = pathlib.Path(__file__).parent / "json_lines" / "read_lines.py"
    return subprocess.run([python, cases, write_events], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
