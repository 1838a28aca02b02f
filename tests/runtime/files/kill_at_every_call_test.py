#!/usr/bin/env python3
"""Kills a process before each file system call of a checkpoint save or prune, and checks what is left.

usage: kill_at_every_call_test.py SAVE_CHECKPOINTS KEEP_ITS_BEST

No checkpoint is lost unless the one that supersedes it is there, all that are there can be loaded, and the next process
saves and leaves nothing else. A run that keeps its best states alongside those that it resumes from is killed at calls
throughout, GIRO_RESTARTS times; each time it resumes, and it leaves the same files as an uninterrupted run. Exits with
77 and the reason if strace cannot kill.
"""

import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

program = keeper = None
kills = 0


def strace(*arguments):
    """Runs strace without --seccomp-bpf, with which nothing is injected."""
    return subprocess.run(["strace", "-qq", *map(str, arguments)], capture_output=True, text=True, check=False)


def kill_before(call, number, command):
    return strace("-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}", *command)


def reason_to_skip():
    try:
        result = kill_before("openat", 1, ["true"])
    except OSError as error:
        return str(error)
    return "" if result.returncode == -signal.SIGKILL else f"strace cannot kill a process: {result.stderr.strip()}"


class KillAtEveryCall(unittest.TestCase):
    def setUp(self):
        memory = pathlib.Path("/dev/shm")  # needs no disk, since the system keeps running
        folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.before = self.folder / "before" / "model"
        self.model = self.folder / "now" / "model"

    def left_by_run(self):
        """The contents of all files of tensors, by name, and the names of all other files except locks."""
        left = {}
        for path in (self.folder / "run").rglob("*"):
            name = re.sub(r"lines_\d+", "lines", str(path.relative_to(self.folder)))
            if path.is_file() and path.name != ".lock":
                left[name] = path.read_bytes() if path.suffix == ".safetensors" else b""
        return left

    def test_run_that_keeps_its_best_beside_its_last(self):
        global kills
        generator, run = random.Random(5), self.folder / "run"
        ways = [(keep, order, asynchronous) for asynchronous in (0, 3, 1, 2) for keep in (1, 3) for order in (0, 1)]
        expected, calls = {}, {}
        count, killed = int(os.environ.get("GIRO_RESTARTS", "8")), 0
        for i in range(count):
            way = ways[i % len(ways)]
            command = [keeper, run, *way]
            if way not in expected:
                log = self.folder / "log"
                shutil.rmtree(run, ignore_errors=True)
                strace("-f", "-e", "trace=write,fsync,rename,openat,unlink,rmdir,mkdir", "-o", log, *command)
                counts, calls[way] = collections.Counter(), []
                for line in log.read_text().splitlines():
                    if not (call := re.match(r"(\d+) +(\w+)\(", line)):
                        continue
                    counts[call.groups()] += 1  # each thread counts for itself
                    if calls[way] or str(run) in line:
                        calls[way].append((call[2], counts[call.groups()]))
                expected[way] = self.left_by_run()
                self.assertEqual(len(list((run / "best").glob("checkpoint_*"))), way[0])
            shutil.rmtree(run)
            for _ in range(2):
                name, number = generator.choice(calls[way])
                result = strace("-f", "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}", *command)
                self.assertIn(result.returncode, (-signal.SIGKILL, 0), result.stderr)
                killed += result.returncode != 0
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.left_by_run(), expected[way], way)
        kills += killed
        self.assertGreater(killed, count)

    def run_it(self, *arguments):
        result = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return set(result.stdout.split())

    def start_again(self):
        shutil.rmtree(self.model.parent, ignore_errors=True)
        if self.before.exists():
            shutil.copytree(self.before, self.model)

    def calls_of(self, command):
        """Calls on files, from the first that names the directory, as (name, number among the calls of that name)."""
        self.start_again()
        log = self.folder / "log"
        result = strace("-e", "trace=%file,%desc", "-o", log, *command)
        self.assertEqual(result.returncode, 0, result.stderr)
        seen, calls = collections.Counter(), []
        for line in log.read_text().splitlines():
            name = re.match(r"\w+", line).group()
            seen[name] += 1
            if calls or (str(self.model.parent) in line and name != "execve"):
                calls.append((name, seen[name]))
        return calls

    def kill_each(self, before, after, *arguments):
        """`before`, `after`: the checkpoints listed before and after the command, as "steps.variant"."""
        global kills
        command = [program, arguments[0], self.model, *arguments[1:]]
        calls = self.calls_of(command)
        self.assertEqual(self.run_it("check", self.model), after)
        changing = {"write", "fsync", "rename", "mkdir", "unlink", "rmdir"} & {name for name, _ in calls}
        self.assertLessEqual({"rename", "unlink"} if arguments[0] == "prune" else {"write", "fsync", "rename"}, changing)
        found = []
        for name, number in calls:
            with self.subTest(f"killed before call {number} of {name}"):
                self.start_again()
                result = kill_before(name, number, command)
                self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
                kills += 1
                found.append(self.run_it("check", self.model))
                self.assertLessEqual(before & after, found[-1])
                self.assertLessEqual(found[-1], before | after)
                self.assertTrue(before <= found[-1] or after <= found[-1], found[-1])
                names = sorted(re.sub(r"lines_\d+", "lines", path.name) for path in self.model.iterdir())
                self.assertEqual(names, [".lock", "checkpoint_0000000009", "lines.jsonl", "lines.jsonl"])
        self.assertEqual((found[0], found[-1]), (before, after))  # so kills came on both sides of the commit

    def three(self):
        self.run_it("save", self.before, 3, 1, 0, 3, 2, 0, 3, 3, 0)
        return {"1.0", "2.0", "3.0"}

    def test_first_save(self):
        self.kill_each(set(), {"4.0"}, "save", 1, 4, 0)

    def test_save_that_supersedes_all(self):
        self.kill_each(self.three(), {"4.0"}, "save", 1, 4, 0)

    def test_save_that_replaces(self):
        self.kill_each(self.three(), {"2.0", "3.1"}, "save", 2, 3, 1)

    def test_save_of_a_run_that_has_gone_back(self):
        self.kill_each(self.three(), {"1.0", "2.1"}, "save", 2, 2, 1)

    def test_save_after_a_death(self):
        before = self.three()
        result = kill_before("rename", 2, [program, "save", self.before, 3, 3, 1])
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        left = sorted(path.name.split("-")[0] for path in self.before.glob("checkpoint_0000000003*"))
        self.assertEqual(left, ["checkpoint_0000000003.old", "checkpoint_0000000003.tmp"])
        self.kill_each(before, {"3.0", "4.0"}, "save", 2, 4, 0)

    def test_prune(self):
        self.kill_each(self.three(), {"3.0"}, "prune", 1)


if __name__ == "__main__":
    program, keeper = sys.argv.pop(1), sys.argv.pop(1)
    if reason := reason_to_skip():
        print(f"skipped: {reason}")
        sys.exit(77)
    tests = unittest.main(exit=False)
    print(f"{kills} kills")
    sys.exit(not tests.result.wasSuccessful())
