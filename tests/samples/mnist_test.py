#!/usr/bin/env python3
"""Runs the MNIST sample's binary as a user would.

usage: mnist_test.py runs SAMPLE       on a small data set made here: bad input, and the same run twice
       mnist_test.py accuracy SAMPLE   on the data the sample takes by default; exits with 77 if that is missing
"""

import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from sample_runs import FolderCase, history, kill_and_go_on, last_tensors, result_of

SIDE, CLASSES, TRAIN_ROWS, TEST_ROWS = 12, 10, 400, 100
# Steps of 32 images, and the accuracy on the test images that training must reach from any seed.
FLOORS = {"linear": (500, 0.76), "cnn": (60, 0.60)}
SKIP = 77

sample = None


def run(*options, binary=None, **more):
    device = () if "--device" in options else ("--device", "cpu")
    return subprocess.run([binary or sample, *device, *map(str, options)], capture_output=True, text=True,
                          check=False, **more)


def write_split(folder, prefix, rows, generator):
    """Images of noise with one bright row, whose place is the label."""
    labels = bytes(generator.randrange(CLASSES) for _ in range(rows))
    images = bytearray()
    for label in labels:
        for y in range(SIDE):
            low, high = (200, 256) if y == label else (0, 60)
            images += bytes(generator.randrange(low, high) for _ in range(SIDE))
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, rows, SIDE, SIDE) + images)
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, rows) + labels)


class Runs(FolderCase):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.data.mkdir()
        generator = random.Random(0)
        write_split(self.data, "train", TRAIN_ROWS, generator)
        write_split(self.data, "t10k", TEST_ROWS, generator)
        self.before = self.files()

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def train(self, name, *options):
        logdir = self.folder / name
        result = run("--data", self.data, "--logdir", logdir, *(() if "--steps" in options else ("--steps", 40)), *options)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return logdir, result

    def refuses(self, words, *options, **more):
        result = run("--steps", 1000, *options, cwd=self.folder, **more)
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("mnist: ") and result.stderr.endswith("\n"), result.stderr)
        for word in words:
            self.assertIn(str(word), result.stderr)
        self.assertEqual(result.stdout, "", "it had begun to train")
        self.assertEqual(self.files(), self.before)

    def test_a_missing_data_directory(self):
        self.refuses([self.folder / "nowhere"], "--data", self.folder / "nowhere", "--logdir", self.folder / "log")

    def test_truncated_data(self):
        images = self.data / "train-images-idx3-ubyte"
        images.write_bytes(images.read_bytes()[:-1])
        self.refuses([images], "--data", self.data, "--logdir", self.folder / "log")

    def test_a_logdir_that_is_a_file(self):
        file = self.folder / "log"
        file.write_text("mine")
        self.before = self.files()
        for logdir in (file, file / "below"):
            self.refuses([file], "--data", self.data, "--logdir", logdir)
        self.assertEqual(file.read_text(), "mine")

    def test_a_logdir_that_takes_no_files(self):
        logdir = self.folder / "log"
        (logdir / "model").mkdir(parents=True)  # can be written to, so it takes checkpoints; the history has no place
        (logdir / "model").chmod(0o777)
        logdir.chmod(0o555)
        more = {}
        if os.geteuid() == 0:  # root may write anyway, so a copy that all can read runs as an unprivileged user
            more = {"user": 65534, "binary": shutil.copy(sample, self.folder / "mnist")}
            self.folder.chmod(0o755)
        self.before = self.files()
        self.refuses([logdir], "--data", self.data, "--logdir", logdir, "--resume", **more)

    def test_a_precision_that_the_device_does_not_have(self):
        self.refuses(["cpu does not support tf32", "GPU"], "--dtype", "tf32", "--data", self.data, "--logdir",
                     self.folder / "log")
        self.refuses(["cpu does not support bf16", "AVX512_BF16"], "--dtype", "bf16", "--data", self.data, "--logdir",
                     self.folder / "log", env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"})

    def test_an_unknown_device(self):
        self.refuses(["abacus"], "--data", self.data, "--logdir", self.folder / "log", "--device", "abacus")

    def test_unknown_options(self):
        self.refuses(["--optimiser"], "--optimiser", "adam")
        self.refuses(["--steps"], "--steps", "0")
        self.refuses(["--log-every"], "--log-every", "-1")
        self.refuses(["--model"], "--model", "transformer")

    def test_the_program_of_a_step(self):
        result = run("--data", self.data, "--model", "cnn", "--device", "cpu", "--program")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        times = r" +[\d.]+ us +[\d.]+ %  floor +[\d.]+ us +[\d.]+ x$"
        self.assertRegex(result.stdout, r"(?m)^conv2d +\d+ B +\d+ FLOP" + times)
        self.assertRegex(result.stdout, r"(?m)^    %\d+, params/\S+, params/\S+ -> %\d+ f32 \(32, 12, 12, 32\)$")
        self.assertRegex(result.stdout, r"(?m)^    step, learning_rate_scale, grads, opt_state/mu, opt_state/nu, params\b")
        self.assertRegex(result.stdout, r"(?m)^total of \d+ ops +\d+ B +\d+ FLOP" + times)
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 120)
        self.assertRegex(result.stdout, r"(?m)^replayed as a whole: [\d.]+ us, floor [\d.]+ us, [\d.]+ x$")

    def test_what_a_run_leaves_behind(self):
        logdir, result = self.train("log")
        files = sorted(path.name for path in logdir.iterdir() if path.is_file())
        self.assertEqual(files, ["curves.svg", "history.csv"])
        last = result.stdout.splitlines()[-1]
        self.assertTrue(last.startswith("result: "), last)
        values = result_of(result)
        self.assertEqual((values["model"], values["device"], values["steps"]), ("linear", "cpu", 40))
        columns = history(logdir)
        self.assertEqual(columns["steps"], [str(step) for step in range(40)])
        self.assertEqual(set(columns), {"steps", "samples", "loss", "accuracy"})

    def test_how_often_it_logs_and_saves(self):
        often, result = self.train("often")
        seldom, _ = self.train("seldom", "--log-every", 15, "--checkpoint-every", 30)
        self.assertEqual(history(seldom), {name: values[::15] for name, values in history(often).items()})
        kept = max(path.name for path in (seldom / "model").iterdir() if path.is_dir())
        self.assertEqual(kept, "checkpoint_0000000040")
        never, unlogged = self.train("never", "--log-every", 0, "--checkpoint-every", 0)
        left = [path.name for path in never.rglob("*") if path.is_file() and not path.name.startswith(".")]
        self.assertEqual(left, ["history.csv"])
        self.assertEqual(len((never / "history.csv").read_text().splitlines()), 1)
        self.assertEqual(result_of(unlogged)["test_loss"], result_of(result)["test_loss"])

    def test_each_run_has_a_directory_of_its_own(self):
        for number in (1, 2):
            result = run("--data", self.data, "--steps", 40, cwd=self.folder)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(result_of(result)["logdir"], f"logdir/{number}")
        self.before = self.files()
        self.refuses(["logdir/1", "holds a run"], "--data", self.data, "--logdir", "logdir/1")

        result = run("--data", self.data, "--steps", 60, "--resume", cwd=self.folder)  # the newest
        self.assertEqual((result_of(result)["logdir"], result_of(result)["steps"]), ("logdir/2", 60))
        longer, _ = self.train("longer", "--steps", 60)
        self.assertEqual(history(self.folder / "logdir/2"), history(longer))

    def test_a_run_that_is_killed_goes_on(self):
        self.needs_release(sample)
        steps = 20_000
        whole, whole_result = self.train("whole", "--steps", steps)
        options = ["--data", self.data, "--logdir", self.folder / "killed", "--steps", steps, "--resume"]
        saved = kill_and_go_on([sample, "--device", "cpu", *options], self.folder / "killed", steps, 20)
        self.assertNotEqual(saved, [])  # a fast machine finishes before it is killed often
        result = run(*options)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for name in ("steps", "test_accuracy", "test_loss"):
            self.assertEqual(result_of(result)[name], result_of(whole_result)[name])
        self.assertEqual(history(self.folder / "killed"), history(whole))
        self.assertEqual(last_tensors(self.folder / "killed", steps), last_tensors(whole, steps))

    def test_the_seed_decides_the_run(self):
        for model in ("linear", "cnn"):
            with self.subTest(model=model):
                first, again, other = (history(self.train(f"{model}-{name}", "--model", model, "--seed", seed)[0])
                                       for name, seed in (("first", 3), ("again", 3), ("other", 4)))
                self.assertEqual(first, again)
                self.assertEqual(first["steps"], other["steps"])
                self.assertNotEqual(first["loss"], other["loss"])


def default_data():
    text = run("--help").stdout
    return re.search(r"--data \w+(?:=| \[)([^\]\s]+)", text).group(1)


def accuracies():
    data = default_data()
    if not os.path.isdir(data):
        print(f"skipped: no images in {data}")
        return SKIP
    failed = False
    for model, (steps, floor) in FLOORS.items():
        with tempfile.TemporaryDirectory() as logdir:
            result = run("--model", model, "--steps", steps, "--logdir", logdir)
        if result.returncode != 0:
            print(f"{model}: exit code {result.returncode}: {result.stderr}")
            failed = True
            continue
        accuracy = result_of(result)["test_accuracy"]
        failed = failed or accuracy < floor
        print(f"{model}: test accuracy {accuracy:.4f} after {steps} steps, expected {floor} at least")
    return int(failed)


if __name__ == "__main__":
    what, sample = sys.argv[1], os.path.abspath(sys.argv[2])
    if what == "accuracy":
        sys.exit(accuracies())
    unittest.main(argv=[sys.argv[0]])
