#!/usr/bin/env python3
"""Runs the ResNet sample and the recurrent language model's as a user would, small ones: they train, go on with the same
bits, and a ResNet on two ranks trains as on one.

usage: models_test.py [-k PART_OF_A_TEST'S_NAME] RESNET RNNLM [MPIRUN...]

GIRO_TEST_DEVICE=cuda: on the GPU, with no more ranks than there are GPUs.
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from sample_runs import command_of, history, kill_and_go_on, last_tensors, result_of

resnet = rnnlm = mpirun = None
DEVICE = os.environ.get("GIRO_TEST_DEVICE", "cpu")


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def runs(self, command):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return result_of(result)

    def resnet(self, logdir, **options):
        defaults = {"device": DEVICE, "features": 4, "batch": 8, "steps": 6, "evaluate_every": 3, "learning_rate": 0.01,
                    "logdir": self.folder / logdir}
        return command_of(resnet, defaults, options)

    def rnnlm(self, logdir, **options):
        text = self.folder / "text"
        text.write_bytes(b"a text to learn from, over and over; " * 200)
        defaults = {"device": DEVICE, "data": text, "batch": 4, "length": 16, "width": 8, "steps": 30,
                    "checkpoint_every": 10, "logdir": self.folder / logdir}
        return command_of(rnnlm, defaults, options)

    def test_a_resnet_that_is_killed_goes_on(self):
        options = {"steps": 60, "evaluate_every": 50, "checkpoint_every": 5}
        whole = self.runs(self.resnet("whole", **options))
        command = self.resnet("killed", **options, resume=True)
        saved = kill_and_go_on(command, self.folder / "killed", 60, 4, random.Random())
        print(f"killed when steps {saved} were saved")
        self.assertNotEqual(saved, [])
        self.assertEqual(self.runs(command)["train_loss_last"], whole["train_loss_last"])
        self.assertEqual(history(self.folder / "killed"), history(self.folder / "whole"))
        self.assertEqual(last_tensors(self.folder / "killed", 60), last_tensors(self.folder / "whole", 60))

    def test_a_resnet_on_two_ranks(self):
        if not mpirun:
            self.skipTest("no mpirun")
        self.runs(self.resnet("one", partition="data"))
        self.runs([*mpirun, "-n", "2", *self.resnet("two")])
        one, two = (history(self.folder / logdir)["loss"] for logdir in ("one", "two"))
        for step, losses in enumerate(zip(one, two)):
            self.assertAlmostEqual(*map(float, losses), delta=1e-4 * float(losses[0]), msg=f"step {step}")

    def test_a_language_model_goes_on(self):
        whole = self.runs(self.rnnlm("whole"))
        self.assertLess(whole["train_loss_last"], whole["train_loss_first"])
        self.runs(self.rnnlm("parts", steps=20))
        rest = self.runs(self.rnnlm("parts", resume=True))
        self.assertEqual(rest["train_loss_last"], whole["train_loss_last"])

    def test_what_cannot_be_trained_on(self):
        for program, command in (("resnet", self.resnet("log", data="/nowhere")),
                                 ("rnnlm", self.rnnlm("log", length=100_000))):
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 2, result)
            self.assertTrue(result.stderr.startswith(f"{program}: "), result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


if __name__ == "__main__":
    chosen, rest = (sys.argv[1:3], sys.argv[3:]) if sys.argv[1] == "-k" else ([], sys.argv[1:])
    resnet, rnnlm, mpirun = os.path.abspath(rest[0]), os.path.abspath(rest[1]), rest[2:]
    unittest.main(argv=[sys.argv[0], *chosen])
