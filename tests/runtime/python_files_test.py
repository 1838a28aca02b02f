#!/usr/bin/env python3
"""Python's safetensors and giro read each other's files, with NumPy and PyTorch; NumPy reads what giro-checkpoint exports.

usage: python_files_test.py VENV LEAVES [GIRO_CHECKPOINT]

VENV is a folder for a virtual environment with the packages from PyPI, made where it is not there. Exit code 77, and the
reason, where it cannot be made within a minute. PyTorch is Debian's python3-torch, which takes the package safetensors
alone from there; where there is none, that is said and the rest is tested.
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import python_environment

PACKAGES = ["safetensors>=0.8", "numpy"]
DEBIAN_PYTHON = "/usr/bin/python3"


def has_torch():
    try:
        return subprocess.run([DEBIAN_PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main(venv, programs):
    python = python_environment.make(venv, PACKAGES)
    if python is None:
        return 77
    cases = pathlib.Path(__file__).parent / "python_files"
    status = subprocess.run([python, cases / "exchange.py", *programs], check=False).returncode
    if not has_torch():
        print(f"skipped: the exchange with PyTorch: {DEBIAN_PYTHON} has no module torch (package python3-torch)")
        return status
    (packages,) = venv.glob("lib/python3*/site-packages")
    torch = [DEBIAN_PYTHON, cases / "torch_exchange.py", packages, programs[0]]
    return status or subprocess.run(torch, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
