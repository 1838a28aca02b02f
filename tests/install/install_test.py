#!/usr/bin/env python3
"""Installs giro, moves it, and uses it from there: through CMake, through pkg-config, with and without the CUDA module.

usage: install_test.py [-k PATTERN] BUILD CMAKE CXX [EMULATION]

BUILD: a build folder with BUILD_SHARED_LIBS=ON. EMULATION: what is preloaded to emulate a GPU.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
NVIDIA = re.compile(r"lib(cuda|cublas|cudnn|nccl|nvrtc)\w*\.so")
# Names of namespace giro: functions and variables, type information, variables of functions, guards and thunks.
OWN = re.compile(r"_Z(T[ISVTHWC]|Z|GVZ?|Th[n\d]+_|Tv[n\d]+_[n\d]+_)?N[KRO]*4giro\w*|giro_cuda_version|giro_\d+\.\d+")
arguments = None


class Arguments:
    def __init__(self, build, cmake, cxx, emulation=""):
        self.build, self.cmake, self.cxx, self.emulation = pathlib.Path(build).resolve(), cmake, cxx, emulation
        cache = (self.build / "CMakeCache.txt").read_text()
        self.with_cuda = (self.build / "libgiro_cuda.so").exists()
        self.version = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", cache, re.M).group(1)
        self.generator = re.search(r"^CMAKE_GENERATOR:INTERNAL=(.*)$", cache, re.M).group(1)


def run(*command, check=True, **environment):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=os.environ | {name: str(value) for name, value in environment.items()})
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} failed ({result.returncode}):\n{result.stdout}")
    return result


def configure(folder, *options, check=True):
    return run(arguments.cmake, "-S", HERE, "-B", folder, "-G", arguments.generator,
               f"-DCMAKE_CXX_COMPILER={arguments.cxx}", *options, check=check)


class Installed(unittest.TestCase):
    """The libraries in a prefix that was moved after the installation."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name).resolve()
        run(arguments.cmake, "--install", arguments.build, "--prefix", root / "first")
        cls.first, cls.prefix, cls.root = root / "first", root / "moved", root
        cls.first.rename(cls.prefix)
        cls.lib = next(cls.prefix.glob("lib*"))
        cls.user = cls.build_user("shared")
        cls.module = cls.lib / "libgiro_cuda.so"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def build_user(cls, name, *options):
        configure(cls.root / name, f"-DCMAKE_PREFIX_PATH={cls.prefix}", *options)
        run(arguments.cmake, "--build", cls.root / name)
        return cls.root / name / "user"

    def test_no_file_knows_where_it_was_built_or_installed(self):
        own = [str(path).encode() for path in (self.first, arguments.build, HERE.parents[1])]
        texts = [path for path in self.lib.rglob("*") if path.suffix in (".cmake", ".pc")]
        self.assertGreater(len(texts), 5)
        libraries = [path for path in self.lib.glob("*.so*") if not path.is_symlink()]
        for path in texts:
            self.assertFalse([each for each in own if each in path.read_bytes()], path)
        for path in libraries:
            self.assertNotIn(str(arguments.build), run("readelf", "-d", path).stdout, path)

    def test_shared_library_works_and_links_nothing_of_nvidia(self):
        self.assertRegex(run(self.user).stdout, r"^(cpu \w|cuda:0)")
        linked = run("ldd", self.user).stdout
        self.assertIn(str(self.lib / "libgiro.so"), linked)
        self.assertNotRegex(linked, NVIDIA)
        self.assertNotRegex(run("ldd", self.lib / "libgiro.so").stdout, NVIDIA)

    def test_static_library_works(self):
        user = self.build_user("static", "-DGIRO_COMPONENTS=static")
        self.assertRegex(run(user).stdout, r"^(cpu \w|cuda:0)")
        self.assertNotIn("libgiro", run("ldd", user).stdout)

    def test_missing_dependency_is_named(self):
        prefix = f"-DCMAKE_PREFIX_PATH={self.prefix}"
        for package in ("ISAL", "fmt"):
            missing = configure(self.root / package, prefix, "-DGIRO_COMPONENTS=static",
                                f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON", check=False)
            self.assertNotEqual(missing.returncode, 0)
            self.assertIn(package, missing.stdout)
            self.assertIn("giro", missing.stdout)

    def test_unknown_component_is_named(self):
        unknown = configure(self.root / "unknown", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DGIRO_COMPONENTS=sparse",
                            check=False)
        self.assertNotEqual(unknown.returncode, 0)
        self.assertRegex(unknown.stdout, r"giro has no component sparse, only:\s+static;shared")

    def test_pkg_config(self):
        static = self.root / "static_prefix"
        shutil.copytree(self.prefix, static, symlinks=True)
        for library in static.glob("lib*/libgiro*.so*"):
            library.unlink()
        compiled = self.root / "main.o"
        for prefix, options in ((self.prefix, ()), (static, ("--static",))):
            search = next(prefix.glob("lib*/pkgconfig"))
            flags = {kind: run("pkg-config", f"--{kind}", *options, "giro", PKG_CONFIG_PATH=search).stdout.split()
                     for kind in ("cflags", "libs")}
            if not compiled.exists():
                run(arguments.cxx, "-std=c++20", *flags["cflags"], "-c", HERE / "main.cpp", "-o", compiled)
            user = self.root / f"user_of_{prefix.name}"
            run(arguments.cxx, compiled, *flags["libs"], f"-Wl,-rpath,{self.lib}", "-o", user)
            self.assertRegex(run(user).stdout, r"^(cpu \w|cuda:0)")
            self.assertEqual("libgiro" in run("ldd", user).stdout, prefix == self.prefix)

    def test_exports_are_giros(self):
        libraries = [path for path in self.lib.glob("libgiro*.so") if path.exists()]
        self.assertEqual(len(libraries), 1 + arguments.with_cuda)
        for library in libraries:
            names = [line.split()[-1].split("@")[0]
                     for line in run("nm", "--dynamic", "--defined-only", library).stdout.splitlines()]
            self.assertGreater(len(names), 100)
            self.assertEqual([name for name in names if not OWN.fullmatch(name)], [])

    def test_versions(self):
        names = {path.name for path in self.lib.glob("libgiro.so*")}
        abi = ".".join(arguments.version.split(".")[:2])
        self.assertEqual(names, {"libgiro.so", f"libgiro.so.{abi}", f"libgiro.so.{arguments.version}"})
        self.assertIn(f"[libgiro.so.{abi}]", run("readelf", "-d", self.user).stdout)

    def reason(self):
        device, reason = run(self.user).stdout.rstrip("\n").split(" ", 1)
        self.assertEqual(device, "cpu")
        self.assertNotIn("\n", reason)
        return reason

    def with_module(self, make):
        """The reason for the CPU while make(path) has put something into the module's place, or nothing."""
        kept = self.module.with_suffix(".kept")
        self.module.rename(kept)
        try:
            make(self.module)
            return self.reason()
        finally:
            kept.replace(self.module)

    def test_without_the_module_the_cpu_goes_on(self):
        if not arguments.with_cuda:
            self.assertEqual(self.reason(), "giro was built without the CUDA toolkit")
            return
        self.assertEqual(self.with_module(lambda path: None), f"there is no CUDA module {self.module}")

    def test_module_that_does_not_fit(self):
        if not arguments.with_cuda:
            self.skipTest("giro was built without the CUDA toolkit")

        def compiled(source):
            return lambda path: run(arguments.cxx, "-shared", "-fPIC", "-x", "c++", source, "-o", path)

        # A library in the module's place whose own library is absent, as the module is on a machine without NVIDIA's.
        def lacks_a_library(path):
            path.write_bytes(bytes_of_module.replace(b"libcudnn.so.9\0", b"libcudnn.so.8\0"))

        bytes_of_module = self.module.read_bytes()
        for make, why in ((compiled(HERE / "another_version.cpp"), f"is of giro 0.0.9, expected {arguments.version}"),
                          (compiled("/dev/null"), "is of giro no version"),
                          (lambda path: path.write_text("text"), "cannot be loaded: .*"),
                          (lacks_a_library, r"cannot be loaded: libcudnn\.so\.8: cannot open shared object file.*")):
            self.assertRegex(self.with_module(make), f"^the CUDA module {re.escape(str(self.module))} {why}")

    def test_module_runs_on_a_gpu(self):
        if not arguments.with_cuda or not arguments.emulation:
            self.skipTest("no emulated GPU")
        self.assertRegex(run(self.user, LD_PRELOAD=arguments.emulation).stdout, "^cuda:0 ")


class FromSource(unittest.TestCase):
    """The sources in another project. Its library is not compiled: it is a copy of the one in the build folder."""

    def use(self, how):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder).resolve() / "build"
            # In makefiles, a target can be built without what it depends on.
            run(arguments.cmake, "-S", HERE, "-B", build, "-G", "Unix Makefiles", f"-DGIRO_FROM={how}",
                f"-DCMAKE_CXX_COMPILER={arguments.cxx}")
            shutil.copy(arguments.build / "libgiro.a", build / "giro")
            run("make", "-C", build, "user/fast")
            self.assertRegex(run(build / "user").stdout, r"^(cpu \w|cuda:0)")
            targets = run("make", "-C", build, "help").stdout
            self.assertNotIn("_test", targets)

    def test_add_subdirectory(self):
        self.use("add_subdirectory")

    def test_fetch_content(self):
        self.use("FetchContent")


@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "no dpkg-shlibdeps")
class DebianPackages(unittest.TestCase):
    """debian.sh installs them into a bare Debian."""

    def test_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            run("cpack", "-G", "DEB", "--config", arguments.build / "CPackConfig.cmake", "-B", folder)
            fields, files = {}, {}
            for package in pathlib.Path(folder).glob("*.deb"):
                name = run("dpkg-deb", "--field", package, "Package").stdout.strip()
                fields[name] = run("dpkg-deb", "--field", package, "Depends").stdout
                files[name] = set(re.findall(r" \./(\S*[^/\s])(?: -> .*)?$", run("dpkg-deb", "-c", package).stdout, re.M))
        abi = ".".join(arguments.version.split(".")[:2])
        library = f"libgiro{abi}"
        expected = {
            library: {f"usr/lib/libgiro.so.{abi}", f"usr/lib/libgiro.so.{arguments.version}"},
            "libgiro-dev": {"usr/lib/libgiro.so", "usr/lib/libgiro.a", "usr/lib/pkgconfig/giro.pc",
                            "usr/lib/cmake/giro/giroConfig.cmake", "usr/include/giro/giro.h"},
            "giro-tools": {"usr/bin/giro-checkpoint"},
        }
        if arguments.with_cuda:
            expected["libgiro-cuda"] = {"usr/lib/libgiro_cuda.so"}
        self.assertEqual(files.keys(), expected.keys())
        for name, own in expected.items():
            self.assertLessEqual(own, files[name], name)
            if name != library:
                self.assertIn(f"{library} (= {arguments.version})", fields[name])
            for other in expected.keys() - {name}:
                self.assertFalse(files[name] & files[other], (name, other))
        self.assertRegex(fields[library], "libdnnl.*libfmt.*libpng")
        self.assertNotRegex("".join(fields.values()), "cuda-|cublas|cudnn|nccl")


if __name__ == "__main__":
    options = sys.argv[1:3] if sys.argv[1:2] == ["-k"] else []
    arguments = Arguments(*sys.argv[1 + len(options):])
    unittest.main(argv=[sys.argv[0], "-v", *options])
