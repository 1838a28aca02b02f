"""Signals at random moments of training runs that compute all the time: random_signals_test.py DISTRIBUTED_RANKS MPIRUN...

Several SIGUSR1, or none, and then SIGTERM, in runs of three models on one and two threads, with and without mpirun. Each
run saves and ends as docs/checkpoints.md says. GIRO_SIGNAL_RUNS is their number, by default 12, one of each kind.
When a signal could reach a thread whose stack pointer oneDNN used as a register, a quarter of the runs of `mlp` aborted,
with a heap that the handler's frame had overwritten.
"""

import itertools
import os
import random
import re
import signal
import sys
import tempfile
import time

from job import Job, run
from signals_test import steps_saved

MODELS = ("mlp", "cnn", "block")


def steps_logged(directory):
    try:
        with open(f"{directory}/log.csv") as log:
            return len(log.readlines())
    except OSError:
        return 0


def check(model, threads, ranks, program, mpirun, generator):
    saves = generator.choice((0, generator.randint(2, 5)))
    launcher = [*mpirun, "-n", ranks] if ranks else []
    name = f"{model}, {threads} threads, {f'{ranks} ranks' if ranks else 'no mpirun'}, {saves} SIGUSR1"
    problems = []
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(f"{directory}/model")
        os.environ["OMP_NUM_THREADS"] = str(threads)
        job = Job([*launcher, program, "train", directory, "steps=1000000000", "save=1000000000", "keep=100",
                   "batch=96", f"model={model}"])
        if not job.wait_until(lambda: steps_logged(directory) > 3):
            problems.append("the run has not begun")
        processes = re.findall(r"process (\d+), begins", job.output)
        for number in [signal.SIGUSR1] * saves + [signal.SIGTERM]:
            time.sleep(generator.uniform(0.01, 0.2))
            if saves and number == signal.SIGTERM and not job.wait_until(lambda: steps_saved(directory)):
                problems.append("SIGUSR1 has saved nothing")
            if job.process.poll() is None and processes:
                os.kill(int(generator.choice(processes)), number)
        status, _, left = job.end(60)
        saved = steps_saved(directory)
        ended = re.findall(r"ended after (\d+) steps, signal 15, params (\w+)", job.output)
        newest = run([program, "train", directory, "newest"])[1].strip()
    if status != 143:
        problems.append(f"the exit status is {status}")
    if len(ended) != max(ranks, 1) or len(set(ended)) != 1:
        problems.append("not all ranks have ended after the same step")
    # Signals that arrive during one step save once.
    elif not min(saves, 1) + 1 <= len(saved) <= saves + 1 or newest != f"step {ended[0][0]}, 0 damaged":
        problems.append(f"saved after steps {saved}, ended after {ended[0][0]}, the newest checkpoint: {newest}")
    if left:
        problems.append(f"processes are left: {left}")
    print(f"{name}: saved after steps {saved}, {'FAILED' if problems else 'ended'} with {status}", flush=True)
    return [f"{name}: {problem}\n{job.output[-2000:]}" for problem in problems]


def main(program, *mpirun):
    seed = int(os.environ.get("GIRO_SEED", random.randrange(1 << 30)))
    runs = int(os.environ.get("GIRO_SIGNAL_RUNS", 12))
    print(f"GIRO_SEED={seed}", flush=True)
    kinds = list(itertools.product((0, 2), (1, 2), MODELS))
    random.Random(seed).shuffle(kinds)
    kinds = itertools.islice(itertools.cycle(kinds), runs)
    problems = [problem for i, (ranks, threads, model) in enumerate(kinds)
                for problem in check(model, threads, ranks, program, mpirun, random.Random(seed + i))]
    print(f"{runs} runs, {len(problems)} problems")
    return "\n".join(problems) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
