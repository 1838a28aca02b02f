#!/usr/bin/env python3
"""Tests the arithmetic of tests/bench/step_model, and that no kernel of a recorded step is expected below its floor.

usage: step_model_test.py BUILD NVRTC PTXAS
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "step_model"))
import h200  # noqa: E402
import kernels  # noqa: E402
import steps  # noqa: E402

KERNEL = h200.Kernel(registers=40, stack=0, spills=0, slow_path=False, load_bytes=64, instructions=0.5,
                     device_fences=0, system_fences=0, barriers=0)


def op(bytes_read, read_at, bytes_written, written_at):
    tensors = [{"at": read_at, "bytes": bytes_read}], [{"at": written_at, "bytes": bytes_written}]
    return {"bytes": bytes_read + bytes_written, "reads": tensors[0], "writes": tensors[1]}


def time(blocks, megabytes, **changes):
    moved = h200.Traffic(dram=1e6 * megabytes, l2=0, read=5e5 * megabytes)
    return h200.own_kernel(KERNEL._replace(**changes), blocks, 256, 0, moved, 0)


class Arithmetic(unittest.TestCase):
    def test_blocks_on_an_sm(self):
        self.assertEqual(h200.blocks_on_an_sm(KERNEL, 256, 0), 6)  # registers allow 51 warps
        self.assertEqual(h200.blocks_on_an_sm(KERNEL._replace(registers=32), 256, 0), 8)
        self.assertEqual(h200.blocks_on_an_sm(KERNEL, 256, 100 << 10), 2)

    def test_a_large_copy_takes_its_floor_and_a_launch(self):
        self.assertAlmostEqual(time(100_000, 4300), 1000 + h200.GAP + h200.START)

    def test_what_makes_a_kernel_slower(self):
        self.assertGreater(time(10, 100), time(100, 100))
        self.assertGreater(time(1000, 100, load_bytes=2), time(1000, 100))
        self.assertGreater(time(1000, 100, instructions=50), time(1000, 100))
        self.assertGreater(time(1000, 100, passes=3), time(1000, 100))
        self.assertAlmostEqual(time(1000, 100, device_fences=2, system_fences=1) - time(1000, 100),
                               2 * h200.DEVICE_FENCE + h200.SYSTEM_FENCE)

    def test_tensor_cores(self):
        nothing, kernel = h200.Traffic(0, 0, 0), KERNEL._replace(instructions_a_product=40)
        one, two = (h200.own_kernel(kernel, 1000, 256, 0, nothing, flops) for flops in (4e9, 8e9))
        self.assertAlmostEqual(two - one, 40 * 32 * 4e9 / h200.PRODUCT / (h200.SMS * h200.SM_ISSUES))
        of = {"reads": [{"shape": [1024, 28, 28, 1], "bytes": 1605632}],
              "writes": [{"shape": [32, 3, 3, 1], "bytes": 1152}, {"shape": [32], "bytes": 128}]}
        self.assertAlmostEqual(steps.padded(of, 900), 1600)

    def test_waves(self):
        nothing = h200.Traffic(0, 0, 0)
        one, two = (h200.library_product(128 * tiles, 128, 1 << 14, "bf16", nothing) for tiles in (132, 133))
        self.assertGreater(two, one)

    def test_the_longest_path(self):
        nodes = [{"after": after} for after in ([], [0], [0], [1, 2])]
        self.assertEqual(h200.longest_path(nodes, [1, 5, 2, 1]), (7, [0, 1, 3]))

    def test_what_is_in_l2(self):
        small = h200.traffic_of([op(100, 0, 100, 1000), op(100, 1000, 100, 0)])
        self.assertEqual([each.dram for each in small], [0, 0])
        large = h200.traffic_of([op(100, 0, 1e8, 1000), op(1e8, 1000, 100, 0)])
        self.assertEqual([round(each.dram) for each in large], [100_000_000, 100_000_000])

    def test_what_is_read_from_ptx_and_source(self):
        loop = "$L1:\n\tld.global.f32 \t%f1, [%rd1];\n\tadd.f32 \t%f2, %f1, %f1;\n\t@%p1 bra \t$L1;\n"
        text = f"\tmov.u32 \t%r1, 0;\n\tld.global.v4.f32 \t{{%f3}}, [%rd1];\n{loop}\tmembar.gl;\n\tbar.sync \t0;\n"
        self.assertEqual(kernels.load_bytes(text), 20)
        self.assertEqual(kernels.instructions_a_byte(text), 3 / 4)
        self.assertEqual(kernels.instructions_a_product(text), 0)
        product = "\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 \t{%f1}, {%r1}, {%r2}, {%f1};\n"
        self.assertEqual(kernels.instructions_a_product(text.replace("\tadd", 2 * product + "\tadd")), 5 / 2)
        self.assertEqual(kernels.passes("void k(int n) {\n  gather<8>(x0 + 1);\n  gather<8>(x0 + 2);\n}\n", "k"), 2)

    def test_names(self):
        self.assertEqual(steps.short("_ZN4giro4cuda12_GLOBAL__N_113gather_kernelENS_3RowE"), "gather_kernel")
        self.assertEqual(steps.short("giro_add_relu_7c76ef9cc66d42b2_parts_0"), "giro_add_relu")


class RecordedStep(unittest.TestCase):
    def test_no_kernel_is_below_its_floor_or_spills(self):
        for model, dtype, declined, most in (("linear", "f32", False, 5), ("cnn", "f32", False, 18),
                                             ("cnn", "bf16", False, 19), ("cnn", "f32", True, 40)):
            case = steps.model_case(build, kernels.Kernels(build, nvrtc, ptxas).measure, model, 32, dtype, declined)
            self.assertLessEqual(len(case["kernels"]), most, model)
            self.assertEqual([kernel["complaint"] for kernel in case["kernels"] if kernel.get("complaint")], [])
            for kernel in case["kernels"]:
                self.assertGreater(kernel["time"], kernel["floor"], kernel)
            self.assertGreaterEqual(case["time"], sum(k["time"] for k in case["kernels"] if k.get("on_path")) - 1e-6)
            self.assertEqual(sum(k["kernel"].startswith("cu") for k in case["kernels"]) == 0, declined)


if __name__ == "__main__":
    build, nvrtc, ptxas = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
