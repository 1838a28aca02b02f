#!/usr/bin/env python3
"""Tests tests/gpu.sh without a GPU, in a second: each stage ends within a call of ten minutes, a failing part hides no
other, and `fetch` takes every package that giro is built with. Also checks that benchmarks end."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests/gpu.sh"
CALL = 600  # seconds
MOST_FILES = 8  # returned by a call


def run(*args, script=SCRIPT, **options):
    return subprocess.run(["bash", script, *args], capture_output=True, text=True, **options)


# Stand-ins for what a stage runs: kernels_test fails, and cuda_behaviour_test finds no GPU.
STANDINS = {
    "bin/cmake": "exit 0",
    "bin/nvidia-smi": "echo 9.0",
    "bin/mpirun": 'shift 2; exec "$@"',
    "bin/timeout": 'echo "$3" >>"$LIMITS"; shift 3; exec "$@"',
    "build-cuda/samples/mnist":
        'echo \'result: {"device": "cuda:0", "steps_per_second": 1e4, "test_accuracy": 0.9, "test_loss": 0.3}\'',
    "build-cuda/tests/kernels_test": "exit 3",
    "build-cuda/tests/cuda_behaviour_test": "echo '[  SKIPPED ] CudnnCudaTest.A (0 ms)'",
    "build-cuda/tests/runtime_test": "echo '[  SKIPPED ] DeclinedCudaTest.A (0 ms)'",
    **{f"build-cuda/tests/kernels_{folder}_test": "exit 0" for folder in ("nn", "expr")},
    "build-cuda/samples/gpt2": "exit 0",
    "build-cuda/samples/resnet": "exit 0",
    "build-cuda/tests/runtime_files_test": "exit 0",
    "build-cuda/tests/bench/graph_bench": "echo node_of_chain/1",
    "build-cuda/tests/bench/step_bench": "echo record",
}


class Stages(unittest.TestCase):
    def test_each_ends_within_a_call(self):
        limits = dict(line.split() for line in run("list").stdout.splitlines())
        self.assertEqual(set(limits), {"first", "tests", "sanitize-kernels", "compare"})
        for stage, limit in limits.items():
            self.assertLessEqual(int(limit), CALL - 30, stage)

    def test_an_unknown_one_is_refused_before_any_runs(self):
        for stages in ["none"], ["first", "sanitise"], ["compare-linear"], ["compare-mlp-32"], ["compare-cnn-32-1-f64"], []:
            done = run(*stages)
            self.assertEqual(done.returncode, 2, stages)
            self.assertRegex(done.stderr, "no stage '.+': fetch, list, rehearse, first")
            self.assertEqual(done.stdout, "")

    def test_a_part_that_fails_hides_no_other(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            for name, body in {"tests/gpu.sh": None, **STANDINS}.items():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                if body is None:
                    shutil.copy(ROOT / name, tree / name)
                else:
                    (tree / name).write_text("#!/bin/sh\n" + body + "\n")
                    (tree / name).chmod(0o755)
            env = dict(os.environ, PATH=f"{tree}/bin:{os.environ['PATH']}", OUT=f"{tree}/out", LIMITS=f"{tree}/limits")
            done = run("first", script=tree / "tests/gpu.sh", env=env)
            summary = (tree / "out/summary.txt").read_text()
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            for line in ["kernels_test: FAILED with exit code 3", "program of cnn, batch 1024, bf16: ok",
                         "5000 steps of linear: ok", "5000 steps of cnn, accuracy: ok",
                         "100.0 us a step, test accuracy 0.9000", "cuda_behaviour_test: FAILED, tests skipped themselves",
                         "runtime_test: ok", "kernels_nn_test: ok", "program of gpt2, bf16: ok", "program of resnet, bf16: ok",
                         "graph_bench: ok", "step_bench: ok", "5000 steps of linear --partition data, accuracy: ok"]:
                self.assertIn(line, summary)
            self.assertEqual(summary.count("FAILED"), 2, summary)
            self.assertLessEqual(len(os.listdir(tree / "out")), MOST_FILES - 1)
            (stage,) = re.findall(r"\[first\]=(\d+)", SCRIPT.read_text())
            limits = [int(line) for line in (tree / "limits").read_text().split()]
            self.assertGreater(len(limits), 15)
            self.assertTrue(all(0 < limit <= int(stage) for limit in limits), limits)


class Packages(unittest.TestCase):
    def test_what_giro_is_built_with_is_fetched(self):
        needed = re.search(r"^packages=\((.*?)\"\$@\"\)", (ROOT / "cmake/install_dependencies.sh").read_text(), re.M | re.S)
        needed = set(needed[1].split()) - {"build-essential", "cmake"}
        fetched = re.search(r"apt-get download (.*?) \|\|", SCRIPT.read_text(), re.S)[1].replace("\\\n", "").split()
        self.assertLessEqual(needed | {"libgtest-dev", "libbenchmark-dev", "libopenmpi-dev", "openmpi-bin",
                                       "dataset-fashion-mnist"}, set(fetched))


class Benchmarks(unittest.TestCase):
    def test_those_with_times_of_their_own_count_their_iterations(self):
        found = 0
        for source in (ROOT / "tests/bench").glob("*.cpp"):
            for statement in re.findall(r"^BENCHMARK[^;]*;", source.read_text(), re.M):
                if "UseManualTime" in statement:
                    found += 1
                    self.assertIn("->Iterations(", statement, source.name)
        self.assertGreater(found, 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
