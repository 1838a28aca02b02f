"""Shared by the tests of samples: what a run prints and leaves behind, and runs that are killed."""

import csv
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "distributed" / "ranks"))
from job import Job


class FolderCase(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def needs_release(self, program):
        """Skips a test if the program has AddressSanitizer, which changes no number, sees nothing of a process that is
        killed, and takes long."""
        if b"__asan_init" in pathlib.Path(program).read_bytes():
            self.skipTest("is done in the release build")


def command_of(program, defaults, options):
    """A program's command line: an option replaces its default."""
    given = {**defaults, **options}
    return [str(program), *(str(word) for name, value in given.items() for word in (
        f"--{name.replace('_', '-')}", *(() if value is True else value if isinstance(value, list) else (value,))))]


def result_of(result):
    results = re.findall("result: (.*)$", result.stdout, re.MULTILINE)
    assert len(results) == 1, f"{len(results)} results in:\n{result.stdout}"
    return json.loads(results[0])


def history(logdir):
    """The logged values by column, without times."""
    with open(logdir / "history.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0] if name != "time"}


def newest_checkpoint(logdir):
    """The newest checkpoint of a run, and its step; None and 0 if there is none."""
    paths = (path for folder in ("model", "checkpoints") for path in (logdir / folder).glob("checkpoint_" + 10 * "[0-9]"))
    path = max(paths, default=None)
    return path, int(path.name[-10:]) if path else 0


def last_tensors(logdir, steps):
    """The tensors of the checkpoint at the end of a run of `steps` steps: the bytes of each file."""
    path, step = newest_checkpoint(logdir)
    assert step == steps, f"the last checkpoint in {logdir} is of step {step}"
    return {file.name: file.read_bytes() for file in path.glob("*.safetensors")}


def kill_and_go_on(command, logdir, steps, kills):
    """Starts a job that resumes the run in a directory and kills all of its processes, `kills` times or until the run
    finishes: each time some steps further, or soon after its start. Returns the steps that were saved by then.
    GIRO_KILL_SEED repeats another run with the seed that it printed."""
    seed = int(os.environ.get("GIRO_KILL_SEED") or random.randrange(2**32))
    print(f"GIRO_KILL_SEED={seed}", flush=True)
    generator = random.Random(seed)
    saved = []
    while len(saved) < kills:
        job = Job(command)
        if len(saved) % 4 == 3:
            time.sleep(generator.uniform(0, 0.5))
        else:
            target = newest_checkpoint(logdir)[1] + generator.uniform(1, steps / kills)
            job.wait_until(lambda: newest_checkpoint(logdir)[1] >= target)
            time.sleep(generator.uniform(0, 0.02))
        job.kill()
        status = job.end()[0]
        if status == 0:
            break
        if status != -9:
            raise AssertionError(f"exit status {status} after it was killed at steps {saved}\n{job.output}")
        saved.append(newest_checkpoint(logdir)[1])
    print(f"killed {len(saved)} times, when of {steps} steps these were saved: {' '.join(map(str, saved))}")
    return saved
