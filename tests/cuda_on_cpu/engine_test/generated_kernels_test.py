#!/usr/bin/env python3
"""Tests that spills, stacks and 128-bit accesses of kernels are found. usage: generated_kernels_test.py NVRTC
PTXAS"""

import os
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.append(FOLDER)
import generated_kernels  # noqa: E402

SCRIPT = os.path.join(FOLDER, "generated_kernels.py")
OPTIONS = ["--gpu-architecture=sm_90", "--fmad=false", "--std=c++17"]
PRELUDE = "#ifndef GIRO_EXPRESSION_PRELUDE\n#define GIRO_EXPRESSION_PRELUDE\n#endif\n"
# Threads per block, name, parameters, body.
KERNEL = 'extern "C" __global__ void __launch_bounds__({}) {}({}) {{ {} }}\n'

COPY = KERNEL.format(256, "copy", "const float4* from, float4* to, float* one",
                     "to[threadIdx.x] = from[threadIdx.x]; *one = 1;")
SIN = KERNEL.format(256, "of_sin", "float* x",
                    "\n#pragma unroll\nfor (int k = 0; k < 8; ++k) x[k] = sinf(x[k]);")
STACK = KERNEL.format(256, "on_stack", "int* x, int i",
                      "int a[8] = {}; for (int k = 0; k < 8; ++k) a[x[k]] += k; x[0] = a[i];")
# A block of 1024 threads has 64 registers per thread.
SPILLS = KERNEL.format(1024, "spills", "volatile float* x", "float a[99];\n#pragma unroll\nfor (int k = 0; k < 99; ++k) "
                       "a[k] = x[k];\n#pragma unroll\nfor (int k = 0; k < 99; ++k) x[k] = a[98 - k];")


class GeneratedKernels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sources, self.table = os.path.join(folder.name, "sources"), os.path.join(folder.name, "table")
        os.mkdir(self.sources)

    def measure(self, *kernels, share=None):
        """Returns the complaints, and the kernels' rows of the table."""
        for i, kernel in enumerate(kernels):
            _, ptx = generated_kernels.Nvrtc(NVRTC).compile(PRELUDE + kernel, OPTIONS)
            source = "//" + " ".join(OPTIONS) + "\n" + PRELUDE + kernel
            for ending, text in (("cu", source), ("ptx", ptx)):
                with open(os.path.join(self.sources, f"{i}.{ending}"), "w", encoding="utf-8") as file:
                    file.write(text)
        done = subprocess.run([sys.executable, SCRIPT, self.sources, self.table, PTXAS] +
                              ([] if share is None else [str(share)]), text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode != 0, done.stderr != "")
        rows = []
        if os.path.exists(self.table):
            with open(self.table, encoding="utf-8") as file:
                rows = [line.split("\t") for line in file.read().splitlines() if not line.startswith("#")]
        self.said = done.stdout
        return done.stderr, {row[0]: dict(zip(rows[0], row)) for row in rows[1:]}

    def test_counts_accesses(self):
        complaints, rows = self.measure(COPY)
        self.assertEqual(complaints, "")
        self.assertEqual((rows["copy"]["packs"], rows["copy"]["accesses"]), ("2", "3"))
        self.assertIn("1 generated kernels", self.said)

    def test_complains(self):
        complaints, rows = self.measure(SIN, STACK, SPILLS)
        self.assertIn("on_stack has 32 bytes of stack", complaints)
        self.assertRegex(complaints, "spills spills [1-9]")
        self.assertNotIn("of_sin", complaints)
        self.assertGreater(int(rows["of_sin"]["stack"]), 0)

    def test_complains_whatever_the_share(self):
        for share in (0, 3, 4):
            with self.subTest(share):
                complaints, rows = self.measure(SIN, STACK, SPILLS, COPY, share=share)
                self.assertIn("on_stack has 32 bytes of stack", complaints)
                self.assertRegex(complaints, "spills spills [1-9]")
                self.assertEqual(rows["copy"]["registers"] == "-", share != 3)
                self.assertEqual((rows["copy"]["packs"], rows["copy"]["accesses"]), ("2", "3"))

    def test_wants_kernels(self):
        self.assertIn("contains no kernels", self.measure()[0])


if __name__ == "__main__":
    NVRTC, PTXAS = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
