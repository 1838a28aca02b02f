"""The test cases of python_files_test.py, which runs this with a Python that has the packages.

usage: exchange.py LEAVES [GIRO_CHECKPOINT]
"""

import numpy as np
import safetensors
import safetensors.numpy

import file_exchange
from file_exchange import run


class PythonFiles(file_exchange.FileTest):
    def assert_array(self, array, expected):
        self.assertEqual((array.dtype, array.shape), (expected.dtype, expected.shape))
        self.assertEqual(array.tobytes(), expected.tobytes())

    EXPECTED = {
        "params/f32": np.array([[1.5, -2, np.inf], [0, 1e-40, 3.4e38]], np.float32),
        "empty": np.zeros((0, 4), np.float32),
        "scalar": np.array(0.1),
        "f16": np.array([0.5, -65504], np.float16),
        "i32": np.array([-1, -(2**31)], np.int32),
        "i64": np.array([[[2**63 - 1]]], np.int64),
        "u8": np.array([0, 1, 255], np.uint8),
        "bool \u00e9": np.array([False, True]),
    }
    BF16 = np.array([[0x3F80], [0xC020]], np.uint16)  # the bits of 1 and -2.5: NumPy has no bf16

    def test_python_reads_what_giro_wrote(self):
        run(self.leaves, "write", self.path)
        raw = dict(safetensors.deserialize(self.path.read_bytes()))
        bf16 = raw.pop("bf16")
        self.assertEqual((bf16["dtype"], bf16["shape"]), ("BF16", [2, 1]))
        self.assertEqual(bytes(bf16["data"]), self.BF16.tobytes())
        with safetensors.safe_open(self.path, framework="np") as file:
            self.assertEqual(set(file.keys()), {*self.EXPECTED, "bf16"})
            for name, expected in self.EXPECTED.items():
                self.assert_array(file.get_tensor(name), expected)

    def test_giro_reads_what_python_wrote(self):
        arrays = {**self.EXPECTED, "transposed": np.ascontiguousarray(np.arange(6, dtype=np.int32).reshape(2, 3).T)}
        specs = {name: self.spec(array, array.dtype.name) for name, array in arrays.items()}
        specs["bf16"] = self.spec(self.BF16, "bfloat16")
        safetensors.serialize_file(specs, self.path, {"format": "np"})
        printed = {}
        for line in run(self.leaves, "print", self.path).splitlines():
            name, dtype, shape, values = line.split("|")
            printed[name] = (dtype, shape, values.split())
        self.assertEqual(set(printed), set(specs))
        names = {"float32": "f32", "float64": "f64", "float16": "f16", "int32": "i32", "int64": "i64", "uint8": "u8"}
        for name, array in arrays.items():
            dtype, shape, values = printed[name]
            self.assertEqual((dtype, shape), (names.get(array.dtype.name, array.dtype.name), str(array.shape)))
            kind = np.uint8 if array.dtype == bool else array.dtype
            self.assert_array(np.array([kind.type(v) if kind != np.uint8 else int(v) for v in values], kind),
                              array.astype(kind).reshape(-1))  # fmt: skip
        self.assertEqual(printed["bf16"], ("bf16", "(2, 1)", ["1", "-2.5"]))

    @staticmethod
    def spec(array, dtype):
        return safetensors.TensorSpec(dtype=dtype, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)

    def test_giro_reads_what_save_file_wrote(self):
        safetensors.numpy.save_file({"w": np.array([[1, 2]], np.float32)}, self.path, {"format": "np"})
        self.assertEqual(run(self.leaves, "print", self.path), "w|f32|(1, 2)| 1 2\n")

    def test_numpy_reads_what_was_converted(self):
        if self.tool is None:
            self.skipTest("giro-checkpoint is not built")
        bits = np.random.default_rng(1).integers(0, 2**32, 100_000, np.uint32)
        values = bits[(bits & 0x7FFFFFFF) < 0x477FF000].view(np.float32)  # what f16 can hold
        values = np.append(values, np.array([np.nan, -np.inf], np.float32))
        safetensors.numpy.save_file({"w": values, "step": np.array(7)}, self.path)
        out = self.path.with_suffix(".out")
        run(self.tool, "convert", self.path, out, "--dtype", "f16")
        with safetensors.safe_open(out, framework="np") as file:
            self.assert_array(file.get_tensor("step"), np.array(7))
            self.assert_array(file.get_tensor("w"), values.astype(np.float16))
        run(self.tool, "convert", self.path, out, "--dtype", "bf16")
        stored = dict(safetensors.deserialize(out.read_bytes()))["w"]
        self.assertEqual((stored["dtype"], stored["shape"]), ("BF16", [len(values)]))
        upper = np.frombuffer(bytes(stored["data"]), np.uint16).astype(np.int64)
        finite = np.isfinite(values)
        self.assertTrue(np.all(np.isnan(values) == (upper & 0x7FFF > 0x7F80)))
        self.assertTrue(np.all(np.isinf(values) == (upper & 0x7FFF == 0x7F80)))
        values, upper = values[finite].astype(np.float64), upper[finite]

        def distance(bits):
            return np.abs((bits << 16).astype(np.uint32).view(np.float32) - values)

        error = distance(upper)
        for step in (-1, 1):  # a neighbour is farther, or as far and odd; the number before zero is a NaN
            other = distance(upper + step)
            self.assertTrue(np.all(np.isnan(other) | (error < other) | ((error == other) & (upper % 2 == 0))))

    def test_numpy_reads_what_was_exported(self):
        if self.tool is None:
            self.skipTest("giro-checkpoint is not built")
        run(self.leaves, "write", self.path)
        out = self.path.with_suffix(".npz")
        run(self.tool, "export", self.path, out, "--widen")
        with np.load(out, allow_pickle=False) as arrays:
            self.assertEqual(set(arrays), {*self.EXPECTED, "bf16"})
            for name, expected in self.EXPECTED.items():
                self.assert_array(arrays[name], expected)
            self.assert_array(arrays["bf16"], np.array([[1], [-2.5]], np.float32))


if __name__ == "__main__":
    file_exchange.main()
