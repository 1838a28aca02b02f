#!/usr/bin/env python3
"""Tests that what cannot be translated fails the build, naming kernel and line. usage: ptx_to_c_test.py"""

import os
import subprocess
import sys
import tempfile
import unittest

TRANSLATOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ptx", "ptx_to_c.py")
KERNEL = """.version 9.0
.target sm_80
.address_size 64
.visible .entry some_kernel(
	.param .u64 some_kernel_param_0
)
{
	.reg .b32 %r<4>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<4>;
	.loc	1 42 3
	ld.param.u64 %rd1, [some_kernel_param_0];
	INSTRUCTION
	ret;
}
	.file	1 "/somewhere/kernels/some.cu"
"""


class Translation(unittest.TestCase):
    def translate(self, instruction):
        with tempfile.TemporaryDirectory() as folder:
            ptx, c = os.path.join(folder, "some.ptx"), os.path.join(folder, "some.c")
            with open(ptx, "w", encoding="utf-8") as file:
                file.write(KERNEL.replace("INSTRUCTION", instruction))
            done = subprocess.run([sys.executable, TRANSLATOR, ptx, c, "/somewhere"], text=True,
                                  stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode == 0, os.path.exists(c))
            return done.returncode, done.stderr

    def test_what_is_known_passes(self):
        self.assertEqual(self.translate("add.s32 %r1, %r2, %r3;"), (0, ""))

    def test_an_unknown_opcode_fails(self):
        code, message = self.translate("wgmma.fence.sync.aligned;")
        self.assertEqual(code, 1)
        for part in ("wgmma.fence.sync.aligned", "some_kernel", "some.ptx:13", "kernels/some.cu:42"):
            self.assertIn(part, message)

    def test_a_modifier_that_would_be_lost_fails(self):
        for instruction in ("add.sat.s32 %r1, %r2, %r3;", "div.rz.f32 %f1, %f2, %f3;", "cvt.rz.f32.f64 %f1, %rd1;",
                            "bar.sync 1;", "bar.sync 0, 64;", "ld.param.u64 %rd2, [some_kernel_param_0+8];",
                            "activemask.b32 %r1;", "call.uni vprintf, ();", "mov.u32 %r1, %smid;"):
            with self.subTest(instruction):
                code, message = self.translate(instruction)
                self.assertEqual(code, 1)
                self.assertIn("some.ptx:13", message)


if __name__ == "__main__":
    unittest.main()
