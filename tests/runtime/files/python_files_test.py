#!/usr/bin/env python3
"""Python's safetensors and giro read each other's files, with NumPy and PyTorch; NumPy reads what giro-checkpoint exports.

usage: python_files_test.py VENV LEAVES [GIRO_CHECKPOINT]

VENV is a folder for a virtual environment with the packages from PyPI, created if it does not exist. Exits with 77 and
the reason if that cannot be done within a minute. PyTorch is Debian's python3-torch, which takes only the package
safetensors from VENV; without PyTorch, that is printed and the rest is tested.
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import python_environment

PACKAGES = ["safetensors>=0.8", "numpy"]


def main(venv, programs):
    python = python_environment.make(venv, PACKAGES)
    if python is None:
        return 77
    cases = pathlib.Path(__file__).parent / "python_files"
    status = subprocess.run([python, cases / "exchange.py", *programs], check=False).returncode
    torch_python = python_environment.with_module("torch")
    if torch_python is None:
        return status
    (packages,) = venv.glob("lib/python3*/site-packages")
    torch = [torch_python, cases / "torch_exchange.py", packages, *programs]
    return status or subprocess.run(torch, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
