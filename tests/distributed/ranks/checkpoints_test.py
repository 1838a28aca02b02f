"""Checkpoints of several ranks: checkpoints_test.py DISTRIBUTED_RANKS MPIRUN...

What 4 ranks save, 1, 2 and 3 go on from with the same batches, and back. A run that is killed twenty times ends with the
bits of one that was not.
"""

import csv
import os
import pathlib
import random
import re
import sys
import tempfile
import time

from job import Job, run

KILLS, STEPS = 20, 10_000
TOLERANCE = 2e-5  # of losses whose floating-point sums are added in another order


def losses(directory):
    lines = (pathlib.Path(directory) / "losses").read_text().splitlines()
    return [float(line.split()[1]) for line in lines]


def check_world_sizes(program, mpirun):
    """20 steps on `first` ranks, to 40 on `second`, and to 60 on `third`, against 60 on one."""
    problems = []
    with tempfile.TemporaryDirectory() as parent:
        def train(directory, ranks, steps):
            status, output, _, _ = run([*mpirun, "-n", ranks, program, "train", f"{parent}/{directory}", f"steps={steps}"])
            if status != 0:
                problems.append(f"{ranks} ranks to step {steps}: exit status {status}\n{output}")
            return output

        train("whole", 1, 60)
        whole = losses(f"{parent}/whole")
        for sizes in ((4, 1, 4), (4, 2, 4), (4, 3, 4), (1, 4, 2)):
            directory = "_".join(map(str, sizes))
            for ranks, steps in zip(sizes, (20, 40, 60)):
                output = train(directory, ranks, steps)
                if steps > 20 and output.count(f"begins at step {steps - 20}\n") != ranks:
                    problems.append(f"{sizes}: not all {ranks} ranks go on from step {steps - 20}\n{output}")
            found = losses(f"{parent}/{directory}")
            worst = max(abs(a - b) for a, b in zip(found, whole)) if len(found) == len(whole) else float("inf")
            print(f"world sizes {sizes}: losses differ by {worst:.1e} at most")
            if not worst <= TOLERANCE:
                problems.append(f"world sizes {sizes}: losses differ by {worst}")
    return problems


def left_behind(directory):
    """All that tells two runs apart, but for the time that they took."""
    directory = pathlib.Path(directory)
    newest = sorted((directory / "model").glob("checkpoint_*[0-9]"))[-1]
    with open(directory / "log.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {name: [row[name] for row in rows] for name in rows[0] if name not in ("time", "date")}
    return newest.name, (newest / "state.safetensors").read_bytes(), losses(directory), columns


def check_kills(program, mpirun, generator):
    problems, progress = [], []
    with tempfile.TemporaryDirectory() as parent:
        def command(directory):
            return [*mpirun, "-n", 4, program, "train", f"{parent}/{directory}", f"steps={STEPS}", "save=25"]

        whole = Job(command("whole"))
        whole.wait_until(lambda: whole.output.count("begins at step") == 4)
        begin = time.monotonic()
        if whole.end()[0] != 0:
            return ["the run that is not killed has failed"]
        life = (time.monotonic() - begin) / KILLS  # at most, so that half of the run is left after all of them
        kills = 0
        while kills < KILLS:
            job = Job(command("killed"))
            if not job.wait_until(lambda: job.output.count("begins at step") == 4):
                break  # it was over
            progress.append(re.search(r"begins at step (\d+)", job.output)[1])
            time.sleep(generator.uniform(0, life))
            if job.process.poll() is not None:
                break
            if kills % 10 == 0:
                os.killpg(job.process.pid, 9)  # mpirun's group: the ranks, which are not in it, notice a second later
            elif kills % 4 == 1:
                os.kill(int(generator.choice(re.findall(r"process (\d+), begins", job.output))), 9)
            else:
                job.kill()
            kills += 1
            if left := job.end()[2]:
                problems.append(f"kill {kills}: processes are left: {left}")
        else:
            job = Job(command("killed"))
        status = job.end()[0]
        if status != 0:
            problems.append(f"the exit status of the last run is {status}\n{job.output}")
        elif left_behind(f"{parent}/killed") != left_behind(f"{parent}/whole"):
            problems.append("the run that was killed has ended otherwise than the one that was not")
        if kills < KILLS / 2:
            problems.append(f"only {kills} kills")
    print(f"{kills} kills of runs that had begun at steps {' '.join(progress)} of {STEPS}")
    return problems


def main(program, *mpirun):
    seed = int(os.environ.get("GIRO_SEED", random.randrange(1 << 30)))
    print(f"GIRO_SEED={seed}", flush=True)
    problems = check_kills(program, mpirun, random.Random(seed)) + check_world_sizes(program, mpirun)
    return "\n".join(problems) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
