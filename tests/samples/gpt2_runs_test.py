#!/usr/bin/env python3
"""Runs the GPT-2 sample's binary as a user would, with a small model: bad input, and runs that are killed and resumed.

usage: gpt2_runs_test.py [-k PART_OF_A_TEST'S_NAME] SAMPLE [MPIRUN...]
"""

import os
import subprocess
import sys
import unittest

from sample_runs import FolderCase, command_of, history, kill_and_go_on, last_tensors, result_of

DEFAULTS = {"device": "cpu", "layers": 2, "heads": 2, "width": 32, "context": 16}
TEXT = ("a text to learn from, over and over; " * 100).encode()

sample = mpirun = None


class Case(FolderCase):
    def setUp(self):
        super().setUp()
        self.text = self.folder / "text"
        self.text.write_bytes(TEXT)
        self.before = self.files()

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def command(self, logdir, **options):
        return command_of(sample, {**DEFAULTS, "data": self.text, "logdir": self.folder / logdir}, options)

    def runs(self, command):
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        self.assertEqual(result.returncode, 0, result)
        return result

    def refuses(self, words, **options):
        result = subprocess.run(self.command("log", **options), capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout), (2, ""), "it had begun to train")
        self.assertTrue(result.stderr.startswith("gpt2: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for word in words:
            self.assertIn(str(word), result.stderr)
        self.assertEqual(self.files(), self.before)

    def check_kills(self, steps, kills, *launcher, **more):
        self.needs_release(sample)
        options = {"steps": steps, "checkpoint_every": 5, "log_every": 1, "validate_every": 50, "sample_every": 0, **more}
        whole = self.runs([*launcher, *self.command("whole", **options)])
        command = [*launcher, *self.command("killed", **options, resume=True)]
        saved = kill_and_go_on(command, self.folder / "killed", steps, kills)
        self.assertGreater(len(saved), 3)
        result = self.runs(command)
        for name in ("ranks", "steps", "train_loss_first", "train_loss_last"):
            self.assertEqual(result_of(result)[name], result_of(whole)[name], name)
        columns = history(self.folder / "whole")
        self.assertEqual(columns["steps"], [str(step) for step in range(steps)])
        self.assertEqual(history(self.folder / "killed"), columns)
        self.assertEqual(last_tensors(self.folder / "killed", steps), last_tensors(self.folder / "whole", steps))


class Runs(Case):
    def test_prompts_that_the_model_cannot_continue(self):
        self.refuses(["--prompt", "17 tokens", "at most 16"], prompt=17 * "a")
        self.refuses(["--prompt", "empty"], prompt="")
        self.refuses(["--prompt", "byte 195", "vocabulary of 128"], prompt="\u00e9", vocabulary=128)

    def test_data_that_cannot_be_trained_on(self):
        self.refuses([self.folder / "nowhere"], data=self.folder / "nowhere")
        self.refuses([self.text, "fewer than 9001 tokens"], context=9000)
        self.refuses(["batch", "1000"], batch=1000)
        self.refuses([self.text, "expected an id below 100"], vocabulary=100, sample_every=0)

    def test_a_file_that_holds_no_such_model(self):
        self.text.with_name("other").write_bytes(TEXT)
        self.before = self.files()
        self.refuses([self.folder / "other"], load=self.folder / "other")

    def test_the_program_of_a_layer(self):
        def nodes(layers):
            result = self.runs(self.command("log", layers=layers, program=True))
            return int(result.stdout.split("\ntotal of ")[1].split(" ops")[0])

        two, three = nodes(2), nodes(3)
        print(f"{two} ops with 2 layers, {three} with 3")
        self.assertLessEqual(three - two, 30)

    def test_text_that_is_generated(self):
        """During training and at the end, also beyond the context."""
        result = self.runs(self.command("log", steps=6, sample_every=3, prompt="a text", temperature=0, generate=40,
                                        checkpoint_every=0))
        self.assertEqual(result_of(result)["steps"], 6)

    def test_the_speed_is_that_of_steps_alone(self):
        """Each step is followed by a validation on 50 batches, which takes far longer than the step."""
        result = result_of(self.runs(self.command("log", steps=8, validate_every=1, batch=4)))
        counted = result["steps"] * 4 * DEFAULTS["context"] / result["tokens_per_second"]
        self.assertLess(counted, result["train_seconds"] / 2)
        self.assertIsNone(result_of(self.runs(self.command("short", steps=2)))["tokens_per_second"])

    def test_weights_without_a_training(self):
        result = subprocess.run([sample, "--steps", "3"], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (2, "gpt2: --data is required, except with --steps 0\n"))
        self.refuses(["--load", "--resume"], steps=0, generate=1)
        self.refuses(["--generate", "--save"], steps=0, load=self.text)
        self.refuses([self.text], steps=0, generate=1, load=self.text)
        self.refuses(["--prompt-ids", "256", "vocabulary of 256"], prompt_ids=[1, 256])
        self.refuses(["--prompt-ids", "--prompt"], prompt_ids=[1], prompt="a")
        self.refuses(["--prompt:", "vocabulary of 300", "2 bytes", "--prompt-ids"], vocabulary=300, bytes_per_token=2,
                     prompt="a")

    def test_a_run_that_is_over_stays_as_it_is(self):
        first = self.runs(self.command("log", steps=10))
        columns = history(self.folder / "log")
        again = self.runs(self.command("log", steps=10, resume=True))
        self.assertEqual(history(self.folder / "log"), columns)
        for name in ("steps", "train_loss_first", "train_loss_last"):
            self.assertEqual(result_of(again)[name], result_of(first)[name])

    def test_a_run_that_is_killed_goes_on(self):
        self.check_kills(1000, 12, dropout=0.1, accumulate=3)


class Ranks(Case):
    def test_a_run_of_two_ranks_that_is_killed_goes_on(self):
        if not mpirun:
            self.skipTest("no mpirun")
        self.check_kills(400, 8, *mpirun, "-n", "2", partition="zero")


if __name__ == "__main__":
    chosen, rest = (sys.argv[1:3], sys.argv[3:]) if sys.argv[1] == "-k" else ([], sys.argv[1:])
    sample, mpirun = os.path.abspath(rest[0]), rest[1:]
    unittest.main(argv=[sys.argv[0], *chosen])
