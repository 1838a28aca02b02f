#!/usr/bin/env python3
"""TensorBoard's own reader reads the files that giro writes, also after kill -9, half a record and a resume.

usage: tensorboard_test.py VENV WRITE_EVENTS

VENV is a folder for a virtual environment with TensorBoard from PyPI, created if it does not exist. Exits with 77 and
the reason if it cannot be created within a minute.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import python_environment


def main(venv, write_events):
    script = pathlib.Path(__file__).parent / "tensorboard_files" / "read_events.py"
    return python_environment.run(venv, ["tensorboard>=2.18"], script, write_events)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
