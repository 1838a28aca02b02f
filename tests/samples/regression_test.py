#!/usr/bin/env python3
"""Runs the regression sample as a user would: it learns, stops early, resumes with the same bits, trains on two ranks
as on one, and reports in one line what is wrong with a table.

usage: regression_test.py [-k PART_OF_A_TEST'S_NAME] REGRESSION [MPIRUN...]
"""

import csv
import os
import subprocess
import sys
import unittest

from sample_runs import FolderCase, command_of, history, kill_and_go_on, last_tensors, result_of

regression = mpirun = None


class Regression(FolderCase):
    def command(self, logdir, **options):
        return command_of(regression, {"device": "cpu", "hidden": 16, "logdir": self.folder / logdir}, options)

    def runs(self, command):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        return result_of(result)

    def predictions(self, logdir):
        with open(self.folder / logdir / "predictions.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def table(self, text):
        path = self.folder / "table.csv"
        path.write_text(text, encoding="utf-8")
        return path

    def test_it_learns_and_stops_with_the_best_weights(self):
        result = self.runs(self.command("log", learning_rate=0.01, patience=3))
        self.assertTrue(result["stopped_early"], result)
        self.assertEqual(result["steps"], result["best_step"] + 300)
        logged = history(self.folder / "log")
        losses = [float(loss) for loss in logged["loss"]]
        self.assertEqual((losses[0], losses[-1]), (result["train_loss_first"], result["train_loss_last"]))
        self.assertLess(sum(losses[-10:]), sum(losses[:10]) / 2)
        losses = [float(loss) for loss in logged["loss_valid"] if loss]
        self.assertEqual(result["valid_loss"], min(losses))

        self.assertIn("<svg", (self.folder / "log" / "curves.svg").read_text(encoding="utf-8"))

        rows = self.predictions("log")
        self.assertEqual([row["row"] for row in rows], [str(number) for number in range(2_000)])
        with open(self.folder / "log" / "houses.csv", newline="", encoding="utf-8") as file:
            for row, house in zip(rows, csv.DictReader(file)):
                self.assertAlmostEqual(float(row["target"]), float(house["price"]), delta=1e-3)
        errors = [abs(float(row["target"]) - float(row["prediction"])) for row in rows if row["part"] == "valid"]
        self.assertEqual(len(errors), 400)
        # The file holds the weights that gave the result.
        self.assertAlmostEqual(sum(errors) / 400, result["valid_mae"], delta=2e-6 * result["valid_mae"])

    def test_what_is_killed_goes_on(self):
        self.needs_release(regression)
        options = {"steps": 300, "evaluate_every": 20, "checkpoint_every": 5}
        whole = self.runs(self.command("whole", **options))
        command = self.command("killed", **options, resume=True)
        saved = kill_and_go_on(command, self.folder / "killed", 300, 4)
        self.assertNotEqual(saved, [])
        rest = self.runs(command)
        for name in ("train_loss_last", "valid_loss", "valid_mae", "best_step"):
            self.assertEqual(rest[name], whole[name], name)
        self.assertEqual(history(self.folder / "killed"), history(self.folder / "whole"))
        self.assertEqual(last_tensors(self.folder / "killed", 300), last_tensors(self.folder / "whole", 300))
        self.assertEqual(self.predictions("killed"), self.predictions("whole"))

    def test_two_ranks(self):
        if not mpirun:
            self.skipTest("no mpirun")
        options = {"steps": 40, "evaluate_every": 20}
        one = self.runs(self.command("one", **options))
        two = self.runs([*mpirun, "-n", "2", *self.command("two", **options)])
        self.assertEqual((one["ranks"], two["ranks"]), (1, 2))
        for name in ("train_loss_first", "train_loss_last", "valid_loss", "valid_mae"):
            self.assertAlmostEqual(one[name], two[name], delta=1e-6 * one[name], msg=name)

    def test_a_table_of_ones_own(self):
        rows = "".join(f"{x};name {x};{2 * x + 1}\n" for x in range(50))
        paths = [self.table("x;name;y\n" + rows)]
        result = self.runs(self.command("log", data=paths[0], features="x", target="y", delimiter=";", steps=20,
                                        checkpoint_every=0))
        self.assertEqual(result["rows"], 50)

    def test_a_table_that_is_wrong_is_one_clear_line(self):
        columns = {"features": "a,b", "target": "y"}
        good = "a,b,y\n" + 20 * "1,2,3\n"
        for text, options, parts in (
                (good + "1,north,3\n", columns, ["table.csv: line 22", 'column "b" is "north"']),
                (good + "1,2\n", columns, ["table.csv: line 22", "2 fields, expected 3"]),
                (good, {**columns, "target": "yy"}, ["table.csv", 'no column "yy"', "did you mean 'y'?"]),
                (good, {}, ["--data needs --features and --target"]),
                ("a,b,y\n1,2,3\n", columns, ["table.csv: 1 rows, expected at least 5"])):
            result = subprocess.run(self.command("log", data=self.table(text), **options), capture_output=True, text=True,
                                    check=False)
            self.assertEqual(result.returncode, 2, result)
            self.assertTrue(result.stderr.startswith("regression: "), result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            for part in parts:
                self.assertIn(part, result.stderr)


if __name__ == "__main__":
    chosen, rest = (sys.argv[1:3], sys.argv[3:]) if sys.argv[1] == "-k" else ([], sys.argv[1:])
    regression, mpirun = os.path.abspath(rest[0]), rest[1:]
    unittest.main(argv=[sys.argv[0], *chosen])
