"""PyTorch and giro read each other's files: run by python_files_test.py with a Python that has torch.

usage: torch_exchange.py PACKAGES LEAVES [GIRO_CHECKPOINT]

PACKAGES is a folder that has safetensors; torch and its NumPy come first.
"""

import sys

import file_exchange
from file_exchange import run


class TorchFiles(file_exchange.FileTest):
    def setUp(self):
        super().setUp()
        self.expected = {
            "params/f32": torch.tensor([[1.5, -2, float("inf")], [0, 1e-40, 3.4e38]]),
            "empty": torch.zeros(0, 4),
            "scalar": torch.tensor(0.1, dtype=torch.float64),
            "f16": torch.tensor([0.5, -65504], dtype=torch.float16),
            "bf16": torch.tensor([[1], [-2.5]], dtype=torch.bfloat16),
            "i32": torch.tensor([-1, -(2**31)], dtype=torch.int32),
            "i64": torch.tensor([[[2**63 - 1]]]),
            "u8": torch.tensor([0, 1, 255], dtype=torch.uint8),
            "bool \u00e9": torch.tensor([False, True]),
        }

    def test_torch_reads_what_giro_wrote(self):
        run(self.leaves, "write", self.path)
        read = safetensors.torch.load_file(self.path)
        self.assertEqual(set(read), set(self.expected))
        for name, expected in self.expected.items():
            self.assertEqual((read[name].dtype, read[name].shape), (expected.dtype, expected.shape), name)
            self.assertTrue(torch.equal(read[name], expected), name)

    def test_giro_reads_what_torch_wrote(self):
        run(self.leaves, "write", self.path)
        expected = run(self.leaves, "print", self.path)
        safetensors.torch.save_file(self.expected, self.path)
        self.assertEqual(sorted(run(self.leaves, "print", self.path).splitlines()), sorted(expected.splitlines()))

    def test_converts_as_torch_does(self):
        if self.tool is None:
            self.skipTest("giro-checkpoint is not built")
        torch.manual_seed(1)
        bits = torch.randint(-(2**31), 2**31, (100_000,), dtype=torch.int64).to(torch.int32)
        values = bits.view(torch.float32)
        for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
            fits = torch.isinf(values.to(dtype)) == torch.isinf(values)  # what it cannot hold is refused
            expected = values[fits].to(dtype)
            safetensors.torch.save_file({"w": values[fits]}, self.path)
            out = self.path.with_suffix(".out")
            run(self.tool, "convert", self.path, out, "--dtype", name)
            found = safetensors.torch.load_file(out)["w"]
            self.assertEqual(found.dtype, dtype)
            self.assertGreater(len(found), 10_000)
            is_nan = torch.isnan(expected)
            self.assertTrue(torch.equal(torch.isnan(found), is_nan))
            self.assertTrue(torch.equal(found[~is_nan].view(torch.int16), expected[~is_nan].view(torch.int16)))


if __name__ == "__main__":
    sys.path.append(sys.argv.pop(1))
    import safetensors.torch
    import torch

    file_exchange.main()
