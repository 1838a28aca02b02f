"""Pythons for tests: a virtual environment with packages from PyPI, and one that has a module.

usage: python_environment.py VENV PACKAGE...    makes the environment; exits with code 77 if it cannot
"""

import importlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import time

DEBIAN_PYTHON = "/usr/bin/python3"


def make(venv, packages, seconds=60):
    """Returns the Python of the virtual environment in `venv`, created if it does not exist. If it cannot be created
    within `seconds`, prints why and returns None."""
    python = venv / "bin" / "python"
    end = time.monotonic() + seconds
    has_pip = importlib.util.find_spec("pip") is not None  # installing a second one would take seconds
    pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
    steps = [
        [sys.executable, "-m", "venv", *(["--without-pip"] if has_pip else []), venv],
        [*pip, "install", "--quiet", "--no-compile", "--retries", "1", "--only-binary", ":all:", *packages],
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


def run(venv, packages, script, *arguments, seconds=60):
    """Runs the script in make(venv, packages, seconds). Returns its exit code, or 77 without that environment."""
    python = make(venv, packages, seconds)
    return 77 if python is None else subprocess.run([python, script, *arguments], check=False).returncode


def with_module(module):
    """A Python that has the module: this one or Debian's, by its package python3-MODULE. If neither has it, prints so and
    returns None."""
    for python in (sys.executable, DEBIAN_PYTHON):
        try:
            if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0:
                return python
        except OSError:
            pass
    print(f"skipped: neither {sys.executable} nor {DEBIAN_PYTHON} has a module {module} (package python3-{module})")
    return None


def import_module(module):
    """The module. If this Python lacks it, goes on as a Python that has it, or exits with code 77."""
    try:
        return importlib.import_module(module)
    except ImportError:
        python = with_module(module)
        if python is None:
            sys.exit(77)
        os.execv(python, [python, *sys.argv])


if __name__ == "__main__":
    sys.exit(0 if make(pathlib.Path(sys.argv[1]), sys.argv[2:], seconds=120) else 77)
