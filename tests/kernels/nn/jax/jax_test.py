#!/usr/bin/env python3
"""Compares giro with JAX and optax in double, with the same weights.

usage: jax_test.py VENV TEST WRITER [LIBRARIES [SHARE]]

TEST is cases_test.py with the WRITER write_cases, or optimizers_test.py with write_optimizers. It runs on the CPU and,
if there are LIBRARIES to preload, also on the emulated GPU: JAX takes longer than either. With a SHARE, 1 or 2, only
every other case runs there, from this one on. VENV is the folder of a virtual environment with the packages from PyPI,
made if it does not exist. If that fails or takes more than two minutes, prints the reason and exits with code 77.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "support"))
import python_environment


def main(venv, test, *arguments):
    return python_environment.run(venv, ["jax>=0.7", "optax>=0.2.6"], HERE / test, *arguments, seconds=120)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), *sys.argv[2:]))
