"""The Pythons of tests: a virtual environment with packages from PyPI, and one with PyTorch, which is Debian's."""

import shutil
import subprocess
import sys
import time

DEBIAN_PYTHON = "/usr/bin/python3"


def make(venv, packages, seconds=60):
    """The Python of the environment in the folder `venv`, made where it is not there; None, having said why, where it
    cannot be made in so many seconds."""
    python = venv / "bin" / "python"
    end = time.monotonic() + seconds
    steps = [
        [sys.executable, "-m", "venv", venv],
        [python, "-m", "pip", "install", "--quiet", "--retries", "1", "--only-binary", ":all:", *packages],
    ]
    for step in steps:
        try:
            left = max(1, end - time.monotonic())
            subprocess.run(step, capture_output=True, text=True, check=True, timeout=left)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(venv, ignore_errors=True)
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            print(f"skipped: no environment with {' and '.join(packages)}: {said[-1] if said else error}")
            return None
    return python


def with_torch():
    """A Python that has PyTorch: this one, or that of Debian's python3-torch. None, having said so, where neither has."""
    for python in (sys.executable, DEBIAN_PYTHON):
        try:
            if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
                return python
        except OSError:
            pass
    print(f"skipped: neither {sys.executable} nor {DEBIAN_PYTHON} has a module torch (package python3-torch)")
    return None
