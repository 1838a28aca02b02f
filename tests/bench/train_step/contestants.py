"""giro's sample and its peers. Each trains the requested steps in a separate process."""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import curves

HERE = pathlib.Path(__file__).resolve().parent
UNAVAILABLE = 3  # as in work.py, which needs NumPy
PEERS = {
    "cpu": ["torch", "torch-compile", "jax", "jax-scan"],
    "cuda": ["torch", "torch-compile", "torch-graph", "torch-compile-graph", "jax", "jax-scan"],
}


class Failed(Exception):
    """Why a contestant does not train, and which other cases to skip."""

    HERE, SLOW, EVERYWHERE = "this case", "the model with this batch or a larger one", "any case"

    def __init__(self, why, extent=HERE):
        super().__init__(why)
        self.extent = extent


def environment(device):
    env = dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false")  # the contestants share the GPU
    if device == "cpu":
        env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return env


class Giro:
    """The sample, restarted for each training."""

    name, unit = "giro", 1

    def __init__(self, case, args):
        self.case, self.args = case, args
        self.version = "giro's sample"

    def train(self, seed, steps):
        with tempfile.TemporaryDirectory() as folder:
            command = [self.args.sample, "--model", self.case.model, "--dtype", self.case.dtype, "--device",
                       self.args.device, "--batch", str(self.case.batch), "--steps", str(steps), "--seed", str(seed),
                       "--data", self.args.data,
                       "--log-every", str(self.case.log_every), "--checkpoint-every", "0", "--logdir", folder + "/run"]
            done = subprocess.run(command, capture_output=True, text=True, env=environment(self.args.device))
            if done.returncode:
                raise Failed(f"giro's sample ended with {done.returncode}: {done.stderr.strip()}")
            result = json.loads(done.stdout.strip().splitlines()[-1].removeprefix("result: "))
            losses = []
            if self.case.log_every == 1:
                with open(folder + "/run/history.csv") as file:
                    losses = [float(row["loss"]) for row in csv.DictReader(file)]
                if len(losses) != steps:
                    raise Failed(f"history.csv holds {len(losses)} losses of {steps} steps")
        return steps / result["steps_per_second"], losses[:curves.MAX_STEPS]

    def close(self):
        pass


class Peer:
    """A process that compiles and warms up once, then trains from scratch on each request."""

    def __init__(self, name, case, args):
        self.name = name
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, HERE / f"{name.split('-')[0]}_peer.py", name, "--model", case.model, "--dtype", case.dtype,
             "--device", args.device, "--batch", str(case.batch), "--log-every", str(case.log_every),
             "--data", args.data],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment(args.device))
        try:
            ready = self.answer(args.limit)
        except Failed:
            self.close()
            raise
        self.unit, self.version = ready["unit"], ready["version"]

    def answer(self, limit=None):
        late = threading.Event()
        timer = threading.Timer(limit or 0, lambda: (late.set(), self.process.kill()))
        if limit:
            timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        code = self.process.wait()
        if late.is_set():
            raise Failed(f"takes more than {limit:g} s to compile and warm up", Failed.SLOW)
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines() or [f"exit code {code}"]
        raise Failed(lines[-1], Failed.EVERYWHERE if code == UNAVAILABLE else Failed.HERE)

    def train(self, seed, steps):
        try:
            self.process.stdin.write(json.dumps({"seed": seed, "steps": steps}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # answer() reports why
        result = self.answer()
        return result["seconds"], result["losses"][:curves.MAX_STEPS]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()
