#!/usr/bin/env python3
"""Python's safetensors and giro read each other's files; NumPy reads what giro-checkpoint exports.

usage: python_files_test.py VENV LEAVES [GIRO_CHECKPOINT]

VENV is a folder for a virtual environment with the packages from PyPI, made where it is not there. Exit code 77, and the
reason, where it cannot be made within a minute.
"""

import pathlib
import shutil
import subprocess
import sys
import time

PACKAGES = ["safetensors>=0.8", "numpy"]


def main(venv, programs):
    python = venv / "bin" / "python"
    end = time.monotonic() + 60
    steps = [
        [sys.executable, "-m", "venv", venv],
        [python, "-m", "pip", "install", "--quiet", "--retries", "1", "--only-binary", ":all:", *PACKAGES],
    ]
    for step in steps:
        try:
            left = max(1, end - time.monotonic())
            subprocess.run(step, capture_output=True, text=True, check=True, timeout=left)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(venv, ignore_errors=True)
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            print(f"skipped: no environment with {' and '.join(PACKAGES)}: {said[-1] if said else error}")
            return 77
    cases = pathlib.Path(__file__).parent / "python_files" / "exchange.py"
    return subprocess.run([python, cases, *programs], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
