"""What signals do to a training run of several ranks: signals_test.py DISTRIBUTED_RANKS MPIRUN...

mpirun passes SIGUSR1 on to all ranks at once. On SIGTERM and SIGINT it waits for odls_base_sigkill_timeout seconds,
sends all ranks SIGTERM, waits as long again, and kills them. A run that needs more than the default of 1 s to finish a
step and save needs `mpirun --mca odls_base_sigkill_timeout 10`. mpirun's exit status is then 1. SIGTERM to any one rank
is quicker and gives the run all the time it needs: all ranks end after the same step, with exit status 143. After the
first nonzero exit status, mpirun itself takes up to 2.4 s to end: it sleeps twice for odls_base_sigkill_timeout before
it checks whether the other ranks still exist.

The steps are paced, so the ranks sleep most of the time. When the eleven ranks of four concurrent jobs computed and
spun on two cores, a rank in MPI_Finalize was ready to run for up to 3 s and got 20 ms of CPU time.
"""

import concurrent.futures
import os
import random
import re
import signal
import sys
import tempfile
import time

from job import Job

SAVES = 3
GRACE = 2  # seconds that mpirun gives a run
SAME_SIGNAL = 0.5  # seconds after a save in which a signal to another rank counts as the same


def steps_saved(directory):
    names = os.listdir(f"{directory}/model")
    return sorted(int(match[1]) for name in names if (match := re.fullmatch(r"checkpoint_(\d+)", name)))


def check(ranks, to_all, program, mpirun, generator):
    partition = "zero" if (ranks == 4) == to_all else "data"  # each number of ranks and each way with both
    name = f"{ranks} ranks, signals to {'mpirun' if to_all else 'one rank'}, {partition}"
    problems, waits = [], []
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(f"{directory}/model")
        grace = ["--mca", "odls_base_sigkill_timeout", GRACE] if to_all else []
        job = Job([*mpirun, *grace, "-n", ranks, program, "train", directory, "steps=1000000000", "save=1000000000",
                   "keep=100", "pace=1", f"partition={partition}"])

        def send(number):
            processes = re.findall(r"process (\d+), begins", job.output)
            os.kill(job.process.pid if to_all else int(generator.choice(processes)), number)
            return time.monotonic()

        if not job.wait_until(lambda: job.output.count("begins at step") == ranks):
            problems.append("not all ranks have begun")
        for save in range(1, SAVES + 1):
            time.sleep(generator.uniform(0, 0.3))
            begin = send(signal.SIGUSR1)
            if not job.wait_until(lambda: len(steps_saved(directory)) == save, 10):
                problems.append(f"SIGUSR1 number {save}: saved after steps {steps_saved(directory)}")
                break
            waits.append(time.monotonic() - begin)
            time.sleep(0.2 if to_all else SAME_SIGNAL + 0.1)
        job.begin = send(signal.SIGTERM)
        status, seconds, left = job.end(20)
        saved = steps_saved(directory)
        ended = re.findall(r"rank \d ended after (\d+) steps, signal 15, params (\w+)", job.output)
    if status not in ((1, 143) if to_all else (143,)):
        problems.append(f"the exit status is {status}")
    if len(ended) != ranks or len(set(ended)) != 1:
        problems.append("the ranks have not ended after the same step")
    elif len(saved) != SAVES + 1 or saved[-1] != int(ended[0][0]):
        problems.append(f"saved after steps {saved}, ended after {ended[0][0]}")
    if seconds > 5 + (2 * GRACE if to_all else 0):
        problems.append(f"it took {seconds:.1f} s to end")
    if left:
        problems.append(f"processes are left: {left}")
    print(f"{name}: saved {', '.join(f'{wait:.2f}' for wait in waits)} s after SIGUSR1, at steps {saved}; ended with "
          f"{status} {seconds:.1f} s after SIGTERM")
    return [f"{name}: {problem}\n{job.output[-4000:]}" for problem in problems]


def main(program, *mpirun):
    seed = int(os.environ.get("GIRO_SEED", random.randrange(1 << 30)))
    print(f"GIRO_SEED={seed}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        checks = [pool.submit(check, ranks, to_all, program, mpirun, random.Random(seed + ranks))
                  for ranks in (4, 2, 1) for to_all in (True, False)]
        return "\n".join(problem for each in checks for problem in each.result()) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
