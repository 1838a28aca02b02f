#!/usr/bin/env python3
"""Runs giro-checkpoint on small files written here, and on checkpoints that WRITE_CHECKPOINTS writes.

usage: giro_checkpoint_test.py GIRO_CHECKPOINT WRITE_CHECKPOINTS
"""

import ast
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

program = write_checkpoints = None
CODES = {"F32": "f", "F64": "d", "F16": "e", "I32": "i", "I64": "q", "U8": "B", "BOOL": "?", "BF16": "H"}


def write(path, tensors, metadata=None):
    """tensors: {name: (dtype, shape, values)}, bf16 as its bits."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}{CODES[dtype]}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def npy(content):
    """The dtype, shape and data of an NPY file."""
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    (size,) = struct.unpack("<H", content[8:10])
    assert (10 + size) % 64 == 0 and content[9 + size : 10 + size] == b"\n"
    header = ast.literal_eval(content[10 : 10 + size].decode())
    assert header["fortran_order"] is False
    return header["descr"], header["shape"], content[10 + size :]


class GiroCheckpoint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_it(self, code, *arguments):
        result = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stderr == "", code != 2, result.stderr)
        return result.stderr if code == 2 else result.stdout

    def file(self, tensors, name="a", metadata=None):
        path = self.folder / name
        write(path, tensors, metadata)
        return path

    def test_show(self):
        nan = float("nan")
        path = self.file(
            {
                "params/dense0/kernel": ("F32", [2, 2], [1, 2, 3, 4]),
                "params/dense0/bias": ("F32", [3], [nan, 5, float("inf")]),
                "params/dense1/bias": ("BF16", [1], [0x3F80]),
                "step": ("I64", [], [7]),
                "none": ("F64", [0, 3], []),
                "bad\x1b[2J\nname": ("U8", [1], [9]),
            },
            metadata={"steps": "12"},
        )
        self.assertEqual(
            self.run_it(0, "show", path).replace(r"\u{1b}", r"\x1b").splitlines(),  # depends on fmt's version
            [
                f"{path}: 6 tensors, 39 bytes",
                "metadata steps: 12",
                r"bad\x1b[2J\nname  u8 (1,)  1 bytes  mean 9  deviation 0",
                "none  f64 (0, 3)  0 bytes",
                "params/",
                "  dense0/",
                "    bias  f32 (3,)  12 bytes  mean 5  deviation 0  2 NOT FINITE",
                "    kernel  f32 (2, 2)  16 bytes  mean 2.5  deviation 1.11803",
                "  dense1/",
                "    bias  bf16 (1,)  2 bytes  mean 1  deviation 0",
                "step  i64 ()  8 bytes  mean 7  deviation 0",
            ],
        )

    def test_show_of_a_path_with_a_million_parts(self):
        text = self.run_it(0, "show", self.file({"a/" * 1_000_000: ("U8", [1], [1])}))
        self.assertLess(len(text), 1_000)

    def test_diff_of_the_same(self):
        tensors = {"x": ("F32", [2], [1, float("nan")]), "y": ("U8", [0], [])}
        a, b = self.file(tensors), self.file(dict(reversed(tensors.items())), "b", {"steps": "1"})
        self.assertEqual(self.run_it(0, "diff", a, b), "2 tensors are bitwise equal\n")

    def test_diff(self):
        nan = float("nan")
        a = self.file({
            "same": ("F16", [1], [1]), "left": ("F32", [], [1]), "shape": ("F32", [2], [1, 2]),
            "dtype": ("F32", [1], [1]), "values": ("F32", [4], [1, 2, 3, 4]), "nan": ("F32", [2], [nan, 1]),
            "zero": ("F64", [1], [0.0]),
        })
        b = self.file({
            "same": ("F16", [1], [1]), "right": ("F32", [], [1]), "shape": ("F32", [1, 2], [1, 2]),
            "dtype": ("F64", [1], [1]), "values": ("F32", [4], [1, 2.5, 3, 3]), "nan": ("F32", [2], [1, 3]),
            "zero": ("F64", [1], [-0.0]),
        }, "b")  # fmt: skip
        self.assertEqual(
            self.run_it(1, "diff", a, b).splitlines(),
            [
                f"dtype: f32 (1,) in {a}, f64 (1,) in {b}",
                f"left: f32 () only in {a}",
                "nan: 2 of 2 elements differ, by at most nan",
                f"shape: f32 (2,) in {a}, f32 (1, 2) in {b}",
                "values: 2 of 4 elements differ, by at most 1",
                "zero: 1 of 1 elements differ, by at most 0",
                f"right: f32 () only in {b}",
                "1 tensors are bitwise equal",
            ],
        )

    def test_export(self):
        values = {
            "params/a": ("F32", [2, 3], [1, 2, 3, 4, 5, 6]), "f16": ("F16", [1], [0.5]), "f64": ("F64", [], [0.1]),
            "i32": ("I32", [2], [-1, 2]), "i64": ("I64", [1], [1 << 40]), "u8": ("U8", [3], [0, 1, 255]),
            "bool": ("BOOL", [2], [True, False]), "none": ("F32", [0, 4], []), "n\u00e4me": ("U8", [1], [1]),
        }  # fmt: skip
        descriptions = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "|u1", "BOOL": "|b1"}
        out = self.folder / "out.npz"
        self.run_it(0, "export", self.file(values), out)
        with zipfile.ZipFile(out) as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual(set(archive.namelist()), {name + ".npy" for name in values})
            for name, (dtype, shape, elements) in values.items():
                data = struct.pack(f"<{len(elements)}{CODES[dtype]}", *elements)
                self.assertEqual(npy(archive.read(name + ".npy")), (descriptions[dtype], tuple(shape), data), name)
        first = out.read_bytes()
        self.run_it(0, "export", self.folder / "a", out)
        self.assertEqual(out.read_bytes(), first)

    def test_export_of_bf16(self):
        path, out = self.file({"w": ("BF16", [3], [0x3F80, 0xC000, 0x7F80])}), self.folder / "out.npz"
        self.assertIn("'w' is bf16", self.run_it(2, "export", path, out))
        self.assertEqual([p.name for p in self.folder.iterdir()], ["a"])
        self.run_it(0, "export", path, out, "--widen")
        with zipfile.ZipFile(out) as archive:
            self.assertEqual(npy(archive.read("w.npy")), ("<f4", (3,), struct.pack("<3f", 1, -2, float("inf"))))

    def test_convert(self):
        nan, out = float("nan"), self.folder / "out.safetensors"
        path = self.file({
            "params/w": ("F32", [2, 2], [1, -2.5, 1.00390625, nan]), "params/h": ("F16", [1], [0.5]),
            "step": ("I64", [], [7]), "moments/w": ("F32", [1], [1e30]),
        }, metadata={"format": "pt"})  # fmt: skip
        self.assertEqual(
            self.run_it(0, "convert", path, out, "--dtype", "bf16"),
            f"{out}: 4 tensors from {path}, 3 of them converted to bf16\n",
        )
        shown = self.run_it(0, "show", out)
        self.assertIn("metadata format: pt", shown)
        for line in ("w  bf16 (2, 2)  8 bytes", "h  bf16 (1,)  2 bytes", "step  i64 ()  8 bytes"):
            self.assertIn(line, shown)
        data = out.read_bytes()
        self.assertIn(struct.pack("<4H", 0x3F80, 0xC020, 0x3F80, 0x7FC0), data)  # 1 and 1/256: the even neighbour

        error = self.run_it(2, "convert", path, out, "--dtype", "f16")
        self.assertIn('tensor "moments/w" holds 1.0000000150474662e+30, which f16 cannot hold', error)
        self.assertEqual(out.read_bytes(), data)
        self.run_it(0, "convert", path, out, "--dtype", "f16", "--only", "params", "step")
        self.assertNotIn("moments", self.run_it(0, "show", out))
        self.assertIn("'param' matches no tensor", self.run_it(2, "convert", path, out, "--dtype", "f16", "--only", "param"))
        self.assertIn("i32", self.run_it(2, "convert", path, out, "--dtype", "i32"))
        self.run_it(2, "convert", path, out)

    def test_convert_a_checkpoint(self):
        model, _ = self.checkpoints()
        out = self.folder / "weights"
        self.run_it(0, "convert", model, out, "--dtype", "bf16", "--only", "params/**")
        self.assertIn("bias  bf16 (2,)  4 bytes", self.run_it(0, "show", out))

    def test_export_stays_in_its_folder(self):
        for name in ("../x", "/x", "a/../../x", "a\\x", "a\0x", "x" * 70_000):
            path = self.file({name: ("U8", [1], [1])})
            self.assertIn("zip: the name", self.run_it(2, "export", path, self.folder / "out.npz"))
        self.assertFalse((self.folder / "out.npz").exists())

    def checkpoints(self):
        """A directory with checkpoints of steps 10, 20 and 30, and their paths."""
        model = self.folder / "model"
        subprocess.run([write_checkpoints, model], check=True)
        return model, [model / f"checkpoint_{steps:010}" for steps in (10, 20, 30)]

    @staticmethod
    def damage(checkpoint):
        """Changes the last byte of its state, so that only a checksum can tell."""
        path = checkpoint / "state.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)

    def test_list(self):
        model, (_, second, third) = self.checkpoints()
        (second / "checkpoint.json").unlink()
        size = {path: path.stat().st_size for path in third.parent.rglob("*.*")}

        def size_of(checkpoint):
            return str(sum(bytes for path, bytes in size.items() if path.parent == checkpoint))

        lines = self.run_it(0, "list", model).splitlines()
        self.assertEqual(
            [line.split() for line in lines[1:-1]],
            [
                ["10", "320", "1.250", size_of(model / "checkpoint_0000000010"), "2", "-", "-", "-"],
                ["30", "960", "3.750", size_of(third), "2", "-", "-", "params/bias"],
            ],
        )
        self.assertEqual(lines[0].split()[:3], ["steps", "samples", "seconds"])
        self.assertEqual(lines[-1], f"unreadable: '{second}' has no manifest 'checkpoint.json'")

    def test_list_of_the_monitored(self):
        model, _ = self.checkpoints()
        self.assertEqual(self.run_it(0, "list", model).splitlines()[2].split()[5:], ["loss", "0.5", "-"])

    def test_list_of_what_holds_no_checkpoint(self):
        _, (first, *_) = self.checkpoints()
        self.assertEqual(self.run_it(0, "list", self.folder), f"no checkpoint in '{self.folder}'\n")
        for path in (first, first / "state.safetensors", self.folder / "none"):
            self.assertIn(f"'{path}' is not a directory of checkpoints", self.run_it(2, "list", path))

    def test_verify(self):
        model, (first, second, third) = self.checkpoints()
        good = [f"ok: {path}" for path in (first, second, third)]
        self.assertEqual(self.run_it(0, "verify", model).splitlines(), good)
        self.assertEqual(self.run_it(0, "verify", first).splitlines(), [good[0]])

        self.damage(first)
        manifest = third / "checkpoint.json"
        manifest.write_bytes(manifest.read_bytes()[:-1])
        lines = self.run_it(1, "verify", model).splitlines()
        self.assertEqual(lines[1], good[1])
        self.assertIn(f"failed: checkpoint file '{first}/state.safetensors': its checksum is", lines[0])
        self.assertIn(f"failed: manifest '{manifest}': its checksum does not match", lines[2])
        self.assertEqual(len(lines), 3)
        self.assertEqual(self.run_it(1, "verify", first).splitlines(), [lines[0]])

    def test_verify_of_lines(self):
        model, (first, second, third) = self.checkpoints()
        lines = model / "lines_0.jsonl"
        copy = self.folder / "copy" / third.name
        shutil.copytree(third, copy)
        self.assertEqual(self.run_it(0, "verify", copy), f"ok, without its lines: {copy}\n")
        self.assertIn("remembers run/history/records", self.run_it(0, "show", copy))
        content = lines.read_bytes()
        lines.write_bytes(content[:15] + b"x" + content[16:])  # after the first checkpoint's lines
        found = self.run_it(1, "verify", model).splitlines()
        self.assertEqual(found[0], f"ok: {first}")
        for line in found[1:]:
            self.assertIn(f"failed: lines '{lines}': the checksum", line)
        self.assertIn(f"failed: lines '{lines}'", self.run_it(1, "verify", third))
        lines.unlink()
        self.assertEqual(self.run_it(1, "verify", model).count("failed: there is no"), 3)

    def test_verify_beside_a_writer(self):
        """A checkpoint that is removed or replaced meanwhile has not failed."""
        model, _ = self.checkpoints()
        with subprocess.Popen([write_checkpoints, model, "forever"]) as writer:
            try:
                for _ in range(int(os.environ.get("GIRO_VERIFIES", 20))):
                    self.assertNotIn("failed", self.run_it(0, "verify", model))
                    self.assertNotIn("unreadable", self.run_it(0, "list", model))
            finally:
                writer.kill()

    def test_verify_of_nothing(self):
        self.assertIn("no checkpoint in the directory", self.run_it(2, "verify", self.folder))
        self.assertIn("there is no", self.run_it(2, "verify", self.folder / "none"))

    def test_show_of_a_checkpoint(self):
        model, (_, second, third) = self.checkpoints()
        remembered = [
            "remembers run/history/records: {} lines",
            "remembers run/schedules: every(2 s)",
            "remembers run/callbacks: early_stopping",
            r"remembers run/callbacks: bad\x1b[2J\nname",
            "remembers run/callbacks/early_stopping/params/bias: f32 (2,)",
        ]
        text = self.run_it(0, "show", second).replace(r"\u{1b}", r"\x1b")  # depends on fmt's version
        self.assertEqual(
            text.splitlines(),
            [
                f"{second}: 2 tensors, 16 bytes",
                "20 steps, 640 samples, 2.500 s",
                "saved for loss: 0.5",
                *[line.format(20) for line in remembered],
                "params/",
                "  bias  f32 (2,)  8 bytes  mean 10  deviation 10",
                "step  i64 ()  8 bytes  mean 20  deviation 0",
            ],
        )
        lines = self.run_it(0, "show", model).splitlines()
        self.assertEqual(lines[0], f"{third}: 2 tensors, 16 bytes")
        self.assertEqual(lines[2], "NOT FINITE: params/bias")
        self.damage(third)
        lines = self.run_it(0, "show", model).splitlines()
        self.assertIn(f"skipped: checkpoint file '{third}/state.safetensors'", lines[0])
        self.assertEqual(lines[1:], text.splitlines())

    def test_diff_of_checkpoints(self):
        model, (first, second, third) = self.checkpoints()
        self.assertEqual(self.run_it(0, "diff", model, third / "state.safetensors"), "2 tensors are bitwise equal\n")
        self.assertEqual(
            self.run_it(1, "diff", first, second).splitlines(),
            [
                "params/bias: 1 of 2 elements differ, by at most 10",
                "step: 1 of 1 elements differ, by at most 10",
                "0 tensors are bitwise equal",
            ],
        )

    def test_export_of_a_checkpoint(self):
        model, (first, *_) = self.checkpoints()
        out = self.folder / "out.npz"
        self.assertEqual(self.run_it(0, "export", first, out), f"{out}: 2 arrays from {first}\n")
        with zipfile.ZipFile(out) as archive:
            self.assertEqual(npy(archive.read("params/bias.npy")), ("<f4", (2,), struct.pack("<2f", 0, 10)))
        self.run_it(0, "export", model, out)
        with zipfile.ZipFile(out) as archive:
            self.assertEqual(npy(archive.read("step.npy")), ("<i8", (), struct.pack("<q", 30)))

    def test_errors(self):
        bad = self.folder / "bad"
        bad.write_bytes(b"not tensors")
        good = self.file({})
        for arguments in (["show", bad], ["diff", good, bad], ["export", bad, self.folder / "x"], ["show", "none"]):
            self.assertIn(str(bad if bad in arguments else "none"), self.run_it(2, *arguments))
        self.run_it(2, "export", good, "/dev/full/x.npz")
        for arguments in ([], ["show"], ["diff", good], ["unknown"], ["show", good, "--unknown"]):
            self.run_it(2, *arguments)
        self.assertIn("export", self.run_it(0, "--help"))
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([program, "show", good], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("standard output", result.stderr)


if __name__ == "__main__":
    program, write_checkpoints = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
