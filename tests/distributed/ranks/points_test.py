"""What the other ranks do when one fails at any point of a training run: points_test.py DISTRIBUTED_RANKS PRELOAD
MPIRUN...

A rank is killed, aborts, stops, hangs or throws. mpirun is told not to end the others: they must notice by themselves,
within the timeout plus 2 s, and each must name its rank and the step and end with a nonzero exit status. With PRELOAD,
on emulated GPUs, every other job runs without MPI. GIRO_FAULT_POINTS=50 tries 50 points instead of one for each way to
fail.
"""

import concurrent.futures
import itertools
import os
import random
import re
import signal
import sys
import tempfile
import time

from job import Job

TIMEOUT = 3  # seconds that a rank waits for the others
WAYS = ("kill", "abort", "stop", "hang", "throw")
SIGNALS = {"kill": signal.SIGKILL, "abort": signal.SIGABRT, "stop": signal.SIGSTOP}
TELL = '; echo "rank $RANK has ended with $?"'
UNDER_MPIRUN = 'RANK=$OMPI_COMM_WORLD_RANK; "$@"' + TELL
BY_ENVIRONMENT = 'for RANK in $(seq 0 $((WORLD_SIZE - 1))); do (export RANK LOCAL_RANK=$RANK; "$@"' + TELL + ") & done; wait"


class Point:
    def __init__(self, number, generator):
        self.way = WAYS[number % len(WAYS)]
        self.ranks = generator.choice((2, 4))
        self.rank = generator.randrange(self.ranks)
        self.step = generator.randrange(40)
        # A fault from outside finds steps launched ahead; one from inside does not.
        self.delay = generator.uniform(0, 0.5) if self.way in SIGNALS and generator.random() < 0.5 else None
        self.options = [f"timeout={TIMEOUT * 1000}", f"partition={generator.choice(('data', 'zero'))}"]
        if self.delay is None:
            self.options += [f"fault={self.way}", "at=step", f"rank={self.rank}", f"step={self.step}"]
        else:
            self.options += ["steps=1000000000", "save=1000000000"]

    def __str__(self):
        where = f"at step {self.step}" if self.delay is None else f"after {self.delay:.2f} s"
        return f"{self.way} of rank {self.rank} of {self.ranks} {where}, {self.options[1]}"


def start(point, number, directory, program, preload, mpirun):
    words = [program, "train", directory, *point.options]
    if preload and number % 2 == 0:
        meet = [f"WORLD_SIZE={point.ranks}", f"MASTER_ADDR=giro-points-{os.getpid()}", f"MASTER_PORT={10000 + number}"]
        return Job(["env", f"LD_PRELOAD={preload}", *meet, "sh", "-c", BY_ENVIRONMENT, "sh", *words], "astray")
    if preload:
        words = ["env", f"LD_PRELOAD={preload}", *words]
    return Job([*mpirun, "--mca", "orte_enable_recovery", 1, "-n", point.ranks, "sh", "-c", UNDER_MPIRUN, "sh", *words],
               "astray")


def check(number, generator, program, preload, mpirun):
    point = Point(number, generator)
    others = [rank for rank in range(point.ranks) if rank != point.rank]
    problems = []
    with tempfile.TemporaryDirectory() as directory:
        job = start(point, number, directory, program, preload, mpirun)

        def ended(rank):
            return re.search(rf"rank {rank} has ended with (\d+)\n", job.output)

        if point.delay is None:
            if not job.wait_until(lambda: "astray" in job.output):
                problems.append("nothing has gone astray")
        elif job.wait_until(lambda: job.output.count("begins at step") == point.ranks):
            time.sleep(point.delay)
            process = re.search(rf"rank {point.rank}, process (\d+), begins", job.output)[1]
            job.begin = time.monotonic()
            os.kill(int(process), SIGNALS[point.way])
        else:
            problems.append("not all ranks have begun")
        job.wait_until(lambda: all(map(ended, others)), TIMEOUT + 10)
        seconds = time.monotonic() - job.begin
        job.kill()
        job.end()
    for rank in others:
        if not (end := ended(rank)) or end[1] == "0":
            problems.append(f"rank {rank} " + ("has ended with 0" if end else "has not ended"))
        if not re.search(rf"rank {rank} of {point.ranks}, [^\n]*, at step \d+: ", job.output):
            problems.append(f"rank {rank} does not name itself and a step")
    if point.way == "throw" and f"at step {point.step}: has had enough" not in job.output:
        problems.append("what was thrown is not told")
    # On emulated GPUs the others may first have to compile their step's kernels before they wait.
    most = TIMEOUT + (5 if preload and point.delay is not None else 2)
    if seconds > most:
        problems.append(f"it took {seconds:.1f} s, expected at most {most}")
    print(f"{point}: the others ended after {seconds:.1f} s", flush=True)
    return [f"{point}: {problem}\n{job.output[-4000:]}" for problem in problems]


def main(program, preload, *mpirun):
    seed = int(os.environ.get("GIRO_SEED", random.randrange(1 << 30)))
    points = int(os.environ.get("GIRO_FAULT_POINTS", len(WAYS)))
    print(f"GIRO_SEED={seed}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        checks = [pool.submit(check, number, random.Random(seed + number), program, preload, mpirun)
                  for number in range(points)]
        return "\n".join(itertools.chain.from_iterable(each.result() for each in checks)) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
