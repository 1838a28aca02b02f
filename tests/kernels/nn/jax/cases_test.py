#!/usr/bin/env python3
"""giro's ops, losses and layers, and their gradients, against JAX in double with the same weights.

usage: cases_test.py VENV WRITE_CASES DEVICE

VENV is a folder for a virtual environment with JAX from PyPI, made where it is not there. Exit code 77, and the reason,
where it cannot be made in two minutes.
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))
import python_environment

PACKAGES = ["jax>=0.4.31", "optax>=0.2.6"]


def main(venv, compare, *arguments):
    python = python_environment.make(venv, PACKAGES, seconds=120)
    if python is None:
        return 77
    return subprocess.run([python, HERE / compare, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), "compare_cases.py", *sys.argv[2:]))
