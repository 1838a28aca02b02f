#!/usr/bin/env python3
"""Weights of the GPT-2 sample in Hugging Face's format, with the package safetensors: what it saves, and what it loads.

usage: gpt2_files_test.py VENV SAMPLE

VENV is a folder for a virtual environment with the packages from PyPI, created if it does not exist. Exits with 77 if
it cannot be created.
"""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import python_environment
from sample_runs import FolderCase, command_of, newest_checkpoint

PACKAGES = ["safetensors>=0.8", "numpy"]
try:
    import numpy
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError:
    python = python_environment.make(pathlib.Path(sys.argv[1]), PACKAGES)
    if python is None:
        sys.exit(77)
    os.execv(python, [python, *sys.argv])

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 11, 2, 8, 12, 61  # h.1 and h.10 begin alike
MODEL = {"device": "cpu", "layers": LAYERS, "heads": HEADS, "width": WIDTH, "context": CONTEXT, "vocabulary": VOCABULARY}
# The names in Hugging Face's GPT2Model, their shapes, and giro's names.
BLOCK = {
    "ln_1.weight": ((WIDTH,), "layer_norm0/scale"), "ln_1.bias": ((WIDTH,), "layer_norm0/bias"),
    "attn.c_attn.weight": ((WIDTH, 3 * WIDTH), "attention0/qkv/kernel"),
    "attn.c_attn.bias": ((3 * WIDTH,), "attention0/qkv/bias"),
    "attn.c_proj.weight": ((WIDTH, WIDTH), "attention0/out/kernel"),
    "attn.c_proj.bias": ((WIDTH,), "attention0/out/bias"),
    "ln_2.weight": ((WIDTH,), "layer_norm1/scale"), "ln_2.bias": ((WIDTH,), "layer_norm1/bias"),
    "mlp.c_fc.weight": ((WIDTH, 4 * WIDTH), "dense0/kernel"), "mlp.c_fc.bias": ((4 * WIDTH,), "dense0/bias"),
    "mlp.c_proj.weight": ((4 * WIDTH, WIDTH), "dense1/kernel"), "mlp.c_proj.bias": ((WIDTH,), "dense1/bias"),
}
NAMES = {
    "wte.weight": ((VOCABULARY, WIDTH), "params/embedding"),
    "wpe.weight": ((CONTEXT, WIDTH), "params/position_embedding0/embedding"),
    **{f"h.{i}.{name}": (shape, f"params/block{i}/{ours}") for i in range(LAYERS)
       for name, (shape, ours) in BLOCK.items()},
    "ln_f.weight": ((WIDTH,), "params/layer_norm0/scale"), "ln_f.bias": ((WIDTH,), "params/layer_norm0/bias"),
}

sample = None


class Files(FolderCase):
    def setUp(self):
        super().setUp()
        generator = numpy.random.default_rng(0)
        self.weights = {name: generator.normal(0, 0.2, shape).astype(numpy.float32) for name, (shape, _) in NAMES.items()}

    def run_sample(self, **options):
        return subprocess.run(command_of(sample, MODEL, options), capture_output=True, text=True, check=False)

    def generated(self, tensors):
        """The ids that the sample generates with these weights, loaded from a file."""
        save_file(tensors, self.folder / "given.safetensors")
        result = self.run_sample(steps=0, load=self.folder / "given.safetensors", bytes_per_token=2, prompt_ids=3, generate=11,
                                 temperature=1, save=self.folder / "again.safetensors")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def refuses(self, words, tensors):
        path = self.folder / "given.safetensors"
        save_file(tensors, path)
        result = self.run_sample(steps=0, load=path, generate=1, prompt_ids=3)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result)
        self.assertTrue(result.stderr.startswith(f"gpt2: {path}: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_what_a_run_saves(self):
        (self.folder / "ids").write_bytes(bytes(i % VOCABULARY for i in range(600)))
        path = self.folder / "saved.safetensors"
        result = self.run_sample(data=self.folder / "ids", steps=3, sample_every=0, logdir=self.folder / "log", save=path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        saved = load_file(path)
        with safe_open(path, "numpy") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})
        (state,) = (load_file(file) for file in newest_checkpoint(self.folder / "log")[0].glob("state*.safetensors"))
        self.assertEqual(set(saved), set(NAMES))
        for name, (shape, ours) in NAMES.items():
            self.assertEqual((saved[name].shape, saved[name].dtype), (shape, numpy.float32), name)
            self.assertTrue(numpy.array_equal(saved[name], state[ours]), name)
        # The same from the run's checkpoint, without training.
        result = self.run_sample(steps=0, resume=True, logdir=self.folder / "log", save=self.folder / "later.safetensors")
        self.assertEqual((result.returncode, result.stderr, result.stdout), (0, "", ""))
        self.assertEqual((self.folder / "later.safetensors").read_bytes(), path.read_bytes())

    def test_files_of_every_kind_of_model(self):
        """GPT2Model's names have no prefix; GPT2LMHeadModel's do. Older files, such as GPT-2's own, also hold the
        causal mask, and some the head."""
        expected = self.generated(self.weights)
        self.assertGreater(len(set(expected.split())), 5, "too simple to tell models apart")
        self.assertTrue(all(numpy.array_equal(tensor, self.weights[name])
                            for name, tensor in load_file(self.folder / "again.safetensors").items()))
        mask = numpy.tril(numpy.ones((1, 1, CONTEXT, CONTEXT), numpy.float32))
        extra = {f"h.{i}.attn.{name}": value for i in range(LAYERS)
                 for name, value in (("bias", mask), ("masked_bias", numpy.array(-1e4, numpy.float32)))}
        whole = {**self.weights, **extra}
        head = {"lm_head.weight": self.weights["wte.weight"]}
        self.assertEqual(self.generated(whole), expected)
        self.assertEqual(self.generated({**whole, **head}), expected)
        self.assertEqual(self.generated({**whole, **{f"h.{i}.attn.bias": mask > 0 for i in range(LAYERS)}}), expected)
        self.assertEqual(self.generated({f"transformer.{name}": value for name, value in whole.items()} | head), expected)

    def test_files_of_other_models(self):
        missing = dict(self.weights)
        del missing["h.10.ln_1.weight"]
        self.refuses(["1 missing", "h.10.ln_1.weight"], missing)
        self.refuses(["1 missing", "1 extra", '"h.10.ln_1.wieght"', 'nearest to h.10.ln_1.weight is "h.10.ln_1.wieght"'],
                     {**missing, "h.10.ln_1.wieght": self.weights["h.10.ln_1.weight"]})
        self.refuses(["1 extra", '"h.11.ln_1.weight"'], {**self.weights, "h.11.ln_1.weight": self.weights["ln_f.weight"]})
        self.refuses(["1 extra", '"score.weight"'], {**self.weights, "score.weight": self.weights["ln_f.weight"]})
        name = "h.3.mlp.c_fc.weight"
        self.refuses(["1 mismatched", name, f"f32({4 * WIDTH}, {WIDTH}), expected f32({WIDTH}, {4 * WIDTH})"],
                     {**self.weights, name: self.weights[name].T.copy()})
        self.refuses(["1 mismatched", name, "f64", "expected f32"], {**self.weights, name: self.weights[name].astype("f8")})
        self.refuses(["lm_head.weight differs from wte.weight"],
                     {**self.weights, "lm_head.weight": self.weights["wte.weight"] + 1})


if __name__ == "__main__":
    sample = os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]])
