#!/usr/bin/env python3
"""Checks that Perfetto can read the trace of the MNIST sample's cnn, and that it shows where the time went.

usage: trace_test.py SAMPLE [SANITIZERS]

SANITIZERS, unless OFF, are those that the sample was built with: they also slow down the code between spans. Exits with
77 if the sample's default data is missing.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

STEPS, ACCOUNTED, ACCOUNTED_SANITIZED = 60, 0.95, 0.85
SKIP = 77

# The part of the Trace Event Format that giro writes: an event's keys and types by its phase, also those in `args`.
NUMBER = (int, float)
EVENTS = {
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": NUMBER, "dur": NUMBER},
}

sample = None


def default_data():
    text = subprocess.run([sample, "--help"], capture_output=True, text=True, check=True).stdout
    return re.search(r"--data \w+(?:=| \[)([^\]\s]+)", text).group(1)


def leaves(spans):
    """The spans of one track that contain no others. Parents come before their children."""
    return [span for span, after in zip(spans, [*spans[1:], None])
            if after is None or after["ts"] >= span["ts"] + span["dur"]]


class TraceOfTheCnn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            command = [sample, "--model", "cnn", "--device", "cpu", "--steps", str(STEPS), "--logdir", f"{folder}/log",
                       "--profile", f"{folder}/profile"]
            cls.result = subprocess.run(command, capture_output=True, text=True, check=False)
            files = sorted(pathlib.Path(folder).glob("profile/*"))
            cls.names = [path.name for path in files]
            cls.trace = json.loads(files[0].read_text(encoding="utf-8")) if files else None

    def setUp(self):
        self.assertEqual((self.result.returncode, self.result.stderr), (0, ""))
        self.assertEqual(self.names, ["trace_0.json"])
        events = self.trace["traceEvents"]
        # In whole nanoseconds.
        self.spans = [{**event, "ts": round(1e3 * event["ts"]), "dur": round(1e3 * event["dur"])}
                      for event in events if event["ph"] == "X"]
        self.tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}

    def named(self, name):
        return [span for span in self.spans if span["name"] == name]

    def test_every_event_has_what_its_phase_asks_for(self):
        self.assertEqual(set(self.trace), {"displayTimeUnit", "otherData", "traceEvents"})
        self.assertEqual(self.trace["displayTimeUnit"], "ns")
        self.assertEqual(self.trace["otherData"]["spans"], len(self.spans))
        self.assertEqual(self.trace["otherData"]["dropped"], 0)
        for event in self.trace["traceEvents"]:
            self.assertIn(event["ph"], EVENTS)
            types = EVENTS[event["ph"]]
            self.assertEqual(set(event) - {"ph", "args"}, set(types) - {"args"}, event)
            for key, value in types.items():
                self.assertIsInstance(event[key], value, event)
            self.assertTrue(event.get("name"), event)
            if event["ph"] == "X":
                self.assertIn(event["tid"], self.tracks)
                self.assertGreaterEqual(min(event["ts"], event["dur"]), 0, event)
                self.assertTrue(all(isinstance(value, int) for value in event.get("args", {}).values()), event)
        self.assertEqual(len({event["pid"] for event in self.trace["traceEvents"]}), 1)

    def test_spans_of_a_track_nest(self):
        for track in self.tracks:
            open_ends = []
            begin = 0
            for span in (span for span in self.spans if span["tid"] == track):
                self.assertGreaterEqual(span["ts"], begin, "they are in order")
                begin, end = span["ts"], span["ts"] + span["dur"]
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(end, open_ends[-1], span)
                open_ends.append(end)

    def test_what_the_run_did_is_there(self):
        self.assertEqual([span["args"]["step"] for span in self.named("a step")], list(range(STEPS)))
        self.assertEqual(sum(span["args"]["steps"] for span in self.named("launch")), STEPS)
        self.assertEqual(len(self.named("record a step")), 1)
        # The last step's checkpoint is still being saved while the profile is written.
        self.assertEqual([span["args"]["step"] for span in self.named("save a checkpoint")][:1], [1])
        self.assertGreaterEqual(len(self.named("giro::BackupAndRestore::at_step_end")), 2)
        for op in ("conv2d", "conv2d_backward", "activation_avg_pool", "dense", "update", "gather_batch"):
            self.assertGreaterEqual(len(self.named(op)), STEPS, op)
        for callback in ("giro::KerasBar", "giro::Profile"):
            self.assertGreaterEqual(len(self.named(callback)), STEPS - 1, callback)
        self.assertGreaterEqual(len(self.named("next batch")), STEPS - 1)

    def test_it_accounts_for_the_time(self):
        main = [tid for tid, name in self.tracks.items() if name == "main thread"]
        self.assertEqual(len(main), 1)
        lowest = leaves([span for span in self.spans if span["tid"] == main[0]])
        whole = 1e3 * self.trace["otherData"]["duration_us"]
        self.assertLessEqual(sum(span["dur"] for span in lowest), whole)
        # The median over steps: in a few of them another process may have had the processor between two spans.
        begins = [span["ts"] for span in self.named("a step")]
        shares = [sum(span["dur"] for span in lowest if begin <= span["ts"] < end) / (end - begin)
                  for begin, end in zip(begins, begins[1:])]
        accounted = statistics.median(shares)
        print(f"accounts for {100 * accounted:.2f} % of a step")
        self.assertGreaterEqual(accounted, ACCOUNTED)
        of_steps = re.search(r'"train_seconds":([0-9.]+)', self.result.stdout)
        self.assertGreaterEqual(whole / 1e9, ACCOUNTED * float(of_steps.group(1)), "it is of the whole training")


if __name__ == "__main__":
    sample = os.path.abspath(sys.argv[1])
    if sys.argv[2:] not in ([], ["OFF"]):
        ACCOUNTED = ACCOUNTED_SANITIZED
    if not os.path.isdir(default_data()):
        print(f"skipped: no images in {default_data()}")
        sys.exit(SKIP)
    unittest.main(argv=[sys.argv[0]])
