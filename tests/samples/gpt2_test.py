#!/usr/bin/env python3
"""Compares the GPT-2 sample's training and generation with GPT-2 in PyTorch, in double, with the same weights.

usage: gpt2_test.py SAMPLE

Exits with 77 if there is no PyTorch.
"""

import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import python_environment
from sample_runs import FolderCase, command_of, history

torch = python_environment.import_module("torch")

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 2, 2, 32, 16, 61
STEPS, RATE, WARMUP, DECAY = 10, 5e-3, 3, 0.1
# For losses, relative: a few units of f32, in which giro computes. For weights, absolute: Adam's steps are up to RATE
# each, however small a gradient is, so the rounding errors of small ones count.
LOSS_TOLERANCE, WEIGHT_TOLERANCE = 5e-7, 1e-5
DEFAULTS = {"device": "cpu", "layers": LAYERS, "heads": HEADS, "width": WIDTH, "log_every": 1, "validate_every": 0,
            "sample_every": 0, "checkpoint_every": 0}
WINDOWS = 20  # in the training part, so that each step sees all of them, in whatever order

sample = None


def shapes(vocabulary, context):
    """The names and shapes in Hugging Face's GPT2Model file."""
    block = {
        "ln_1.weight": [WIDTH], "ln_1.bias": [WIDTH],
        "attn.c_attn.weight": [WIDTH, 3 * WIDTH], "attn.c_attn.bias": [3 * WIDTH],
        "attn.c_proj.weight": [WIDTH, WIDTH], "attn.c_proj.bias": [WIDTH],
        "ln_2.weight": [WIDTH], "ln_2.bias": [WIDTH],
        "mlp.c_fc.weight": [WIDTH, 4 * WIDTH], "mlp.c_fc.bias": [4 * WIDTH],
        "mlp.c_proj.weight": [4 * WIDTH, WIDTH], "mlp.c_proj.bias": [WIDTH],
    }
    whole = {"wte.weight": [vocabulary, WIDTH], "wpe.weight": [context, WIDTH], "ln_f.weight": [WIDTH],
             "ln_f.bias": [WIDTH]}
    return whole | {f"h.{i}.{name}": shape for i in range(LAYERS) for name, shape in block.items()}


def read_safetensors(path):
    """The tensors of an f32 file, and its metadata."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, spec in header.items():
        assert spec["dtype"] == "F32", spec
        begin, end = (8 + size + offset for offset in spec["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(spec["shape"])
    return tensors, metadata


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    data = b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def in_double(tensors):
    return {name: tensor.double().requires_grad_() for name, tensor in tensors.items()}


def logits_of(weights, tokens):
    def norm(x, name):
        return torch.nn.functional.layer_norm(x, [WIDTH], weights[name + ".weight"], weights[name + ".bias"], 1e-5)

    def product(x, name):
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    def attention(x, name):
        queries, keys, values = (part.unflatten(-1, (HEADS, -1)).transpose(-2, -3)
                                 for part in product(x, name + ".c_attn").split(WIDTH, dim=-1))
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        mixed = scores.masked_fill(~seen, -math.inf).softmax(-1) @ values
        return product(mixed.transpose(-2, -3).flatten(-2), name + ".c_proj")

    def mlp(x, name):
        hidden = torch.nn.functional.gelu(product(x, name + ".c_fc"), approximate="tanh")
        return product(hidden, name + ".c_proj")

    x = weights["wte.weight"][tokens] + weights["wpe.weight"][:tokens.shape[-1]]
    for i in range(LAYERS):
        x = x + attention(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn")
        x = x + mlp(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp")
    return norm(x, "ln_f") @ weights["wte.weight"].T


def rate_of(update, updates):
    if update < WARMUP:
        return RATE * update / WARMUP
    share = (update - WARMUP) / (updates - WARMUP)
    return RATE / 10 + (RATE - RATE / 10) * (1 + math.cos(math.pi * share)) / 2


def train(weights, windows):
    """The losses, and how often a gradient was clipped; changes the weights."""
    matrices = [weight for weight in weights.values() if weight.dim() == 2]
    others = [weight for weight in weights.values() if weight.dim() != 2]
    adamw = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0}],
                              betas=(0.9, 0.95), eps=1e-8)
    losses, clipped = [], 0
    for step in range(STEPS):
        adamw.zero_grad()
        logits = logits_of(weights, windows[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        norm = math.sqrt(sum((weight.grad**2).sum().item() for weight in weights.values()))
        if norm > 1:
            clipped += 1
            for weight in weights.values():
                weight.grad /= norm
        for group in adamw.param_groups:
            group["lr"] = rate_of(step, STEPS)
        adamw.step()
        losses.append(loss.item())
    return losses, clipped


class Gpt2(FolderCase):
    def run_sample(self, name, **options):
        """Returns the log directory and what the sample printed."""
        logdir = self.folder / name
        result = subprocess.run(command_of(sample, {**DEFAULTS, "logdir": logdir}, options), capture_output=True,
                                check=False)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return logdir, result.stdout

    def write_ids(self):
        """Writes ids for WINDOWS windows to train on and one to validate; returns the options and the windows."""
        generator = random.Random(0)
        ids = [generator.randrange(1 + generator.randrange(VOCABULARY)) for _ in range(345)]  # the low ones more often
        trained = math.floor(0.95 * len(ids))
        self.assertEqual((trained - 1) // CONTEXT, WINDOWS)
        (self.folder / "ids").write_bytes(struct.pack(f"<{len(ids)}H", *ids))
        options = {"data": self.folder / "ids", "bytes_per_token": 2, "vocabulary": VOCABULARY, "context": CONTEXT,
                   "batch": WINDOWS}
        return options, torch.tensor([ids[i * CONTEXT:(i + 1) * CONTEXT + 1] for i in range(WINDOWS)])

    def write_initial(self, options):
        """A file with the weights that a training begins with."""
        path = self.folder / "initial.safetensors"
        self.run_sample("initial", **options, steps=1, learning_rate=0, save=path)
        return path

    def losses(self, logdir):
        return [float(loss) for loss in history(logdir)["loss"]]

    def test_ten_steps(self):
        options, windows = self.write_ids()
        initial = self.write_initial(options)
        tensors, metadata = read_safetensors(initial)
        self.assertEqual({name: list(tensor.shape) for name, tensor in tensors.items()}, shapes(VOCABULARY, CONTEXT))
        self.assertEqual(metadata, {"format": "pt"})

        weights = in_double(tensors)
        expected, clipped = train(weights, windows)
        self.assertGreater(clipped, 0, "the gradients have to be clipped for that to be compared")
        self.assertLess(clipped, STEPS)
        last = self.folder / "last.safetensors"
        training = {**options, "load": initial, "learning_rate": RATE, "warmup": WARMUP, "weight_decay": DECAY}
        logdir, _ = self.run_sample("whole", **training, steps=STEPS, save=last)
        found = self.losses(logdir)
        self.assertEqual(len(found), STEPS)
        worst = max(abs(a - b) / b for a, b in zip(found, expected))
        print(f"{STEPS} losses from {expected[0]:.4f} to {expected[-1]:.4f} differ by {worst:.1e} at most; "
              f"{clipped} gradients were clipped")
        for a, b in zip(found, expected):
            self.assertLessEqual(abs(a - b), LOSS_TOLERANCE * b)
        tensors, _ = read_safetensors(last)
        self.assertEqual(set(tensors), set(weights))
        differences = {}
        for name, weight in weights.items():
            difference = (tensors[name].double() - weight.detach()).abs()
            if name.endswith("c_attn.bias"):
                # A key's bias adds the same to all scores of a query. So its gradient is 0 except for rounding, which
                # Adam turns into steps.
                self.assertLessEqual(difference[WIDTH:2 * WIDTH].max().item(), STEPS * RATE)
                difference[WIDTH:2 * WIDTH] = 0
            differences[name] = difference.max().item()
        name = max(differences, key=differences.get)
        print(f"weights differ by {differences[name]:.1e} at most, in {name}")
        for name, difference in differences.items():
            self.assertLessEqual(difference, WEIGHT_TOLERANCE, name)

        # Two accumulated steps with half of the windows each equal one: the mean of their losses is its loss.
        logdir, _ = self.run_sample("halves", **{**training, "batch": WINDOWS // 2}, accumulate=2, steps=2 * STEPS)
        halves = self.losses(logdir)
        for a, b, loss in zip(halves[::2], halves[1::2], expected):
            self.assertLessEqual(abs((a + b) / 2 - loss), LOSS_TOLERANCE * loss)

    def test_a_file_of_the_model_with_its_head(self):
        """GPT2LMHeadModel's names have a prefix, and older files hold the causal mask and the head as well."""
        options, _ = self.write_ids()
        initial = self.write_initial(options)
        tensors, _ = read_safetensors(initial)
        other = {f"transformer.{name}": tensor for name, tensor in tensors.items()}
        for i in range(LAYERS):
            other[f"transformer.h.{i}.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT).tril()
            other[f"transformer.h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
        other["lm_head.weight"] = tensors["wte.weight"]
        write_safetensors(self.folder / "other.safetensors", other)
        files = (initial, self.folder / "other.safetensors")
        first, second = (self.losses(self.run_sample(path.stem + "_loaded", **options, steps=2, load=path)[0])
                         for path in files)
        self.assertEqual(first, second)

    def test_greedy_generation(self):
        context, count, prompt = 80, 100, "the qu\u00efck"
        generator = random.Random(1)
        words = "the qu\u00efck brown fox jumps over a lazy dog while \u00e9toiles shine".split()
        text = " ".join(generator.choice(words) for _ in range(600)).encode()
        (self.folder / "text").write_bytes(text)
        last = self.folder / "last.safetensors"
        generated = {"context": context, "temperature": 0, "generate": count}
        logdir, output = self.run_sample("run", data=self.folder / "text", steps=150, learning_rate=1e-2, warmup=10,
                                         checkpoint_every=150, save=last, prompt=prompt, **generated)
        found = output[:output.rindex(b"\nresult: ")][-count:]
        for weights in ({"load": last}, {"resume": True, "logdir": logdir}):
            self.assertEqual(self.run_sample("none", steps=0, prompt=prompt, **generated, **weights)[1], found + b"\n")
        ids = list(prompt.encode())
        _, numbers = self.run_sample("none", steps=0, load=last, vocabulary=256, bytes_per_token=2, prompt_ids=ids, **generated)
        self.assertEqual(bytes(map(int, numbers.split())), found)
        tensors, _ = read_safetensors(last)
        self.assertEqual({name: list(tensor.shape) for name, tensor in tensors.items()}, shapes(256, context))
        weights = in_double(tensors)
        ids = list(prompt.encode())
        margin = math.inf  # from the likeliest token's logit to the next one's
        window = list(ids)
        with torch.no_grad():
            for _ in range(count):
                if len(window) > context:
                    del window[:-context // 2]
                (best, second), (likeliest, _) = logits_of(weights, torch.tensor([window]))[0, -1].topk(2)
                margin = min(margin, (best - second).item())
                window.append(likeliest.item())
                ids.append(likeliest.item())
        made = bytes(ids[-count:])
        print(f"generated {made!r}; margin {margin:.1e}")
        self.assertGreater(margin, 1e-4, "a tie in f32")
        self.assertGreater(len(set(made)), 5)
        self.assertEqual(found, made)


if __name__ == "__main__":
    sample = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0]])
