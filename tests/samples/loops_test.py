#!/usr/bin/env python3
"""Runs the samples of loops, on a small data set made here.

usage: loops_test.py FIT MANUAL_LOOP CUSTOM_STATE CUSTOM_LOOP CHECKPOINT_STREAM
"""

import csv
import pathlib
import random
import re
import subprocess
import sys
import unittest

from mnist_test import TEST_ROWS, TRAIN_ROWS, write_split
from sample_runs import FolderCase

fit = manual_loop = custom_state = custom_loop = checkpoint_stream = None


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


class Loops(FolderCase):
    def setUp(self):
        super().setUp()
        generator = random.Random(0)
        write_split(self.folder, "train", TRAIN_ROWS, generator)
        write_split(self.folder, "t10k", TEST_ROWS, generator)

    def runs(self, *command):
        result = run(*command)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_fit(self):
        text = self.runs(fit, self.folder, 4)
        epochs = re.findall(r"^epoch (\d+): test loss ([\d.]+), test accuracy ([\d.]+)$", text, re.MULTILINE)
        self.assertEqual([int(epoch) for epoch, _, _ in epochs], [1, 2, 3, 4])
        self.assertLess(float(epochs[-1][1]), float(epochs[0][1]))
        self.assertIn("50/50 [==", text)  # 4 epochs of 400 images, 32 a step

    def test_manual_loop(self):
        logdir = self.folder / "log"
        text = self.runs(manual_loop, self.folder, 60, logdir)
        self.assertIn("60/60 [==", text)
        self.assertEqual([path.name for path in (logdir / "model").glob("checkpoint_*")], ["checkpoint_0000000060"])
        with open(logdir / "history.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([int(row["steps"]) for row in rows], list(range(60)))
        losses = [float(row["loss"]) for row in rows]
        self.assertLess(sum(losses[-10:]), sum(losses[:10]))

    def test_custom_state(self):
        # 1.642 / sqrt(1000 n) falls below 2e-3 at about 674 steps, which is seen at step 680.
        text = self.runs(custom_state)
        pi, after = re.search(r"and ([\d.]+) \+- [\d.]+ after (\d+)$", text, re.MULTILINE).groups()
        self.assertEqual(after, "681")
        self.assertAlmostEqual(float(pi), 3.1416, delta=0.01)

    def test_custom_loop(self):
        work = self.folder / "work"
        text = self.runs(custom_loop, self.folder, 20, work)
        self.assertEqual(re.findall(r"^train    \| step: +(\d+) \| steps_per_sec: +[\d.]+$", text, re.MULTILINE),
                         [str(step) for step in range(2, 21, 2)])
        self.assertEqual(len(re.findall(r"^eval     \| step: +\d+ \| eval time: [\d.]+ seconds$", text, re.MULTILINE)), 10)
        self.assertTrue((work / "STOPPED").exists())
        # A second run resumes from there, with the rest of the chunk under way.
        text = self.runs(custom_loop, self.folder, 35, work)
        self.assertEqual(re.findall(r"^train    \| step: +(\d+) ", text, re.MULTILINE), ["21", "24", "27", "30", "33", "35"])

    def test_checkpoint_stream(self):
        output = self.folder / "output"
        steps = r"^Step +(\d+): Ran (\d+) train steps in [\d.]+ seconds$"
        text = self.runs(checkpoint_stream, self.folder, 30, output)
        self.assertEqual(re.findall(steps, text, re.MULTILINE), [("1", "1"), ("26", "25"), ("30", "4")])
        # A second run resumes from there.
        text = self.runs(checkpoint_stream, self.folder, 60, output)
        self.assertEqual(re.findall(steps, text, re.MULTILINE), [("51", "21"), ("60", "9")])
        self.assertIn("A checkpoint was loaded in ", text)
        self.assertIn("The lowest value for the metric eval/lnpp is set to ", text)
        self.assertTrue((output / "checkpoints" / "checkpoint_0000000060").is_dir())
        self.assertEqual(len(list((output / "tensorboard").glob("events*"))), 2)

    def test_killed_checkpoint_stream(self):
        """Killed after each of its checkpoints, it ends with the same bits as an uninterrupted one."""
        bits = []
        for kills in (0, 4):
            output = self.folder / f"output{kills}"
            for _ in range(kills):
                command = map(str, (checkpoint_stream, self.folder, 90, output))
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                    for line in process.stdout:
                        if " Ran " in line:
                            process.kill()
                            break
            self.runs(checkpoint_stream, self.folder, 90, output)
            bits.append((output / "checkpoints" / "checkpoint_0000000090" / "state.safetensors").read_bytes())
        self.assertEqual(bits[0], bits[1])

    def test_no_data(self):
        for sample in (fit, manual_loop, custom_loop, checkpoint_stream):
            result = run(sample, self.folder / "nowhere")
            self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1))
            self.assertIn("nowhere", result.stderr)


if __name__ == "__main__":
    fit, manual_loop, custom_state, custom_loop, checkpoint_stream = map(pathlib.Path, sys.argv[1:])
    unittest.main(argv=[sys.argv[0]])
