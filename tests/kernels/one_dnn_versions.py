"""Prints with which versions of oneDNN the suites of ops ran last, and how many tests passed: one_dnn_versions.py BUILD"""

import collections
import ctypes
import pathlib
import re
import subprocess
import sys

SUITE = re.compile(r"(kernels(?:_nn)?_test(?:_with_other_one_dnn)?)\.\d+_of_\d+")


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int)]


def version_of(program):
    """The version of the library that the program loads."""
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    [path] = re.findall(r"libdnnl\S* => (\S+)", libraries)
    library = ctypes.CDLL(path)
    library.dnnl_version.restype = ctypes.POINTER(Version)
    version = library.dnnl_version().contents
    return f"{version.major}.{version.minor}.{version.patch}"


def main(build):
    passed = collections.Counter()
    log = (build / "Testing" / "Temporary" / "LastTest.log").read_text(errors="replace")
    for test in re.split(r"^\d+/\d+ Testing: ", log, flags=re.MULTILINE)[1:]:
        suite = SUITE.match(test)
        if suite:
            passed[version_of(build / "tests" / suite[1])] += sum(
                int(count) for count in re.findall(r"^\[  PASSED  \] (\d+) test", test, flags=re.MULTILINE))
    for version, count in sorted(passed.items()):
        print(f"giro: with oneDNN {version}, {count} tests of ops passed")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
