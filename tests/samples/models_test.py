#!/usr/bin/env python3
"""Runs small ResNets and recurrent language models from the samples as a user would: they train and resume with the
same bits, and a ResNet trains on two ranks as on one.

usage: models_test.py [-k PART_OF_A_TEST'S_NAME] RESNET RNNLM [MPIRUN...]

GIRO_TEST_DEVICE=cuda: on the GPU, with no more ranks than there are GPUs.
"""

import os
import random
import subprocess
import sys
import unittest

from sample_runs import FolderCase, command_of, history, kill_and_go_on, last_tensors, result_of

resnet = rnnlm = mpirun = None
DEVICE = os.environ.get("GIRO_TEST_DEVICE", "cpu")


class Case(FolderCase):
    def runs(self, command):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return result_of(result)

    def refuses(self, program, words, command):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for line in result.stderr.splitlines() if line.startswith(f"{program}: ")]
        self.assertEqual((result.returncode, len(lines)), (2, 1), result)
        for word in words:
            self.assertIn(str(word), lines[0])

    def goes_on_after_kills(self, sample, **options):
        self.needs_release(sample("whole")[0])
        options = {**options, "steps": 60, "checkpoint_every": 5}
        whole = self.runs(sample("whole", **options))
        command = sample("killed", **options, resume=True)
        self.assertNotEqual(kill_and_go_on(command, self.folder / "killed", 60, 4), [])
        self.assertEqual(self.runs(command)["train_loss_last"], whole["train_loss_last"])
        self.assertEqual(history(self.folder / "killed"), history(self.folder / "whole"))
        self.assertEqual(last_tensors(self.folder / "killed", 60), last_tensors(self.folder / "whole", 60))

    def ranks(self):
        if not mpirun:
            self.skipTest("no mpirun")
        return [*mpirun, "-n", "2"]

    def compare_losses(self, one, two, tolerance):
        one, two = ([float(loss) for loss in history(self.folder / logdir)["loss"]] for logdir in (one, two))
        self.assertEqual(len(one), len(two))
        print(f"{len(one)} losses differ by {max(abs(a - b) / a for a, b in zip(one, two)):.1e} at most")
        for step, (a, b) in enumerate(zip(one, two)):
            self.assertLessEqual(abs(a - b), tolerance * a, f"step {step}")

    def resnet(self, logdir, **options):
        defaults = {"device": DEVICE, "features": 4, "batch": 8, "steps": 6, "evaluate_every": 3, "learning_rate": 0.01,
                    "logdir": self.folder / logdir}
        return command_of(resnet, defaults, options)

    def rnnlm(self, logdir, **options):
        text = self.folder / "text"
        generator = random.Random(0)
        text.write_bytes(bytes(generator.choice(b"a text to learn from") for _ in range(8010)))  # 7609 to train on
        defaults = {"device": DEVICE, "data": text, "batch": 4, "length": 16, "width": 8, "steps": 30,
                    "checkpoint_every": 10, "logdir": self.folder / logdir}
        return command_of(rnnlm, defaults, options)


class Resnet(Case):
    def test_a_resnet_that_is_killed_goes_on(self):
        self.goes_on_after_kills(self.resnet, evaluate_every=50)

    def test_recorded_and_not(self):
        self.runs(self.resnet("recorded", steps=4))
        self.runs(self.resnet("eager", steps=4, eager=True))
        self.assertEqual(history(self.folder / "eager"), history(self.folder / "recorded"))
        self.assertEqual(last_tensors(self.folder / "eager", 4), last_tensors(self.folder / "recorded", 4))

    def test_images_of_cifar10(self):
        """In its binary format: a label, then the red, green and blue pixels. The label is in the red."""
        data = self.folder / "data"
        data.mkdir()
        generator = random.Random(0)

        def write(name, count):
            labels = [generator.randrange(10) for _ in range(count)]
            images = (bytes([label]) + 1024 * bytes([25 * label]) + generator.randbytes(2048) for label in labels)
            (data / name).write_bytes(b"".join(images))

        for number in range(1, 6):
            write(f"data_batch_{number}.bin", 16)
        write("test_batch.bin", 20)
        result = self.runs(self.resnet("log", data=data, batch=16, steps=40, evaluate_every=0, checkpoint_every=0,
                                       learning_rate=0.1, ema=0.9))
        self.assertLess(result["train_loss_last"], 0.8 * result["train_loss_first"])
        self.assertGreater(result["images_per_second"], 0)
        (data / "data_batch_3.bin").write_bytes(b"cut off")
        self.refuses("resnet", [data / "data_batch_3.bin", "3073"], self.resnet("other", data=data))

    def test_what_cannot_be_trained_on(self):
        self.refuses("resnet", ["/nowhere"], self.resnet("log", data="/nowhere"))


class Rnnlm(Case):
    def test_the_parameters_of_the_example(self):
        self.assertEqual(self.runs(self.rnnlm("log", width=128, batch=1, length=2, steps=1))["parameters"], 328_960)

    def test_a_language_model_goes_on(self):
        for carry in ({}, {"carry": True}):
            with self.subTest(carry):
                name = "carry" if carry else "plain"
                whole = self.runs(self.rnnlm(name, **carry))
                self.assertLess(whole["train_loss_last"], whole["train_loss_first"])
                self.runs(self.rnnlm(f"{name}_parts", steps=20, **carry))
                for _ in ("the rest", "a run that is over"):
                    parts = self.runs(self.rnnlm(f"{name}_parts", resume=True, **carry))
                    for key in ("steps", "train_loss_first", "train_loss_last"):
                        self.assertEqual(parts[key], whole[key], key)
                # The run in parts has one more row, from its checkpoint after 20 steps.
                columns, of_whole = history(self.folder / f"{name}_parts"), history(self.folder / name)
                self.assertEqual([row for row in zip(*columns.values()) if row[0] != "20"], [*zip(*of_whole.values())])

    def test_a_language_model_that_is_killed_goes_on(self):
        self.goes_on_after_kills(self.rnnlm, carry=True)

    def test_losses_that_cannot_be_read(self):
        self.runs(self.rnnlm("log", steps=10))
        losses = self.folder / "log" / "history.csv"
        good = losses.read_text(encoding="utf-8")
        losses.write_text(good + "20,80\n", encoding="utf-8")
        line = good.count("\n") + 1
        self.refuses("rnnlm", [losses, f"line {line}", "20,80"], self.rnnlm("log", resume=True))
        losses.write_text(good.splitlines(keepends=True)[0], encoding="utf-8")
        self.refuses("rnnlm", [losses, "does not reach step 10"], self.rnnlm("log", resume=True))
        losses.unlink()
        self.refuses("rnnlm", [losses, "cannot be read"], self.rnnlm("log", resume=True))

    def test_texts_that_go_on(self):
        """Without learning, the mean loss of 5 steps is that of one step over texts 5 times as long."""
        self.needs_release(rnnlm)
        options = {"learning_rate": 0, "dropout": 0, "checkpoint_every": 1}

        def losses(logdir, **more):
            self.runs(self.rnnlm(logdir, **options, **more))
            return [float(loss) for loss in history(self.folder / logdir)["loss"]]

        (long,) = losses("long", length=380, steps=1, carry=True)  # with both lengths a row's share is 1900 bytes
        parts = losses("parts", length=76, steps=5, carry=True)
        self.assertAlmostEqual(sum(parts) / 5, long, delta=3e-7 * long)
        other = losses("other", length=76, steps=5)
        self.assertGreater(abs(sum(other) / 5 - long), 1e-4 * long)

    def test_a_signal_says_how_to_go_on(self):
        command = self.rnnlm("log", steps=1_000_000)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if "train seconds_per_step" in line:
                    process.terminate()
                    break
            rest = process.stdout.read()
        self.assertEqual(process.returncode, 128 + 15)
        self.assertIn(f"continue with --resume --logdir {self.folder / 'log'}", rest)

    def test_what_cannot_be_trained_on(self):
        self.refuses("rnnlm", ["fewer than 100000 tokens"], self.rnnlm("log", length=100_000))
        self.refuses("rnnlm", ["--carry", "7609 bytes", "more than 8000"], self.rnnlm("log", length=2000, carry=True))
        self.refuses("rnnlm", ["--checkpoint-every"], self.rnnlm("log", checkpoint_every=0))


class Ranks(Case):
    def test_a_resnet_on_two_ranks(self):
        self.runs(self.resnet("one", partition="data"))
        self.runs([*self.ranks(), *self.resnet("two")])
        self.compare_losses("one", "two", 5e-7)

    def test_a_language_model_on_two_ranks(self):
        self.runs(self.rnnlm("one", checkpoint_every=1, steps=10))
        for partition in ("data", "zero"):
            result = self.runs([*self.ranks(), *self.rnnlm(partition, checkpoint_every=1, steps=10, partition=partition)])
            self.assertEqual(result["ranks"], 2)
            self.compare_losses("one", partition, 5e-7)
        self.refuses("rnnlm", ["--carry", "--partition single"], self.rnnlm("log", carry=True, partition="data"))


if __name__ == "__main__":
    chosen, rest = (sys.argv[1:3], sys.argv[3:]) if sys.argv[1] == "-k" else ([], sys.argv[1:])
    resnet, rnnlm, mpirun = os.path.abspath(rest[0]), os.path.abspath(rest[1]), rest[2:]
    unittest.main(argv=[sys.argv[0], *chosen])
