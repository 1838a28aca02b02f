"""Checkpoints of several ranks: checkpoints_test.py DISTRIBUTED_RANKS MPIRUN...

A run saved on 4 ranks resumes on 1, 2 and 3 with the same batches, and the other way round, whether each rank has the
whole state or a shard. A run that is killed twenty times ends with the same bits as an uninterrupted one; on 2 ranks,
it is killed GIRO_RESTARTS times.
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

STEPS = 3_000
TOLERANCE = 2e-5  # of losses, if floating-point sums are added in another order


def losses(directory):
    lines = (pathlib.Path(directory) / "losses").read_text().splitlines()
    return [float(line.split()[1]) for line in lines]


def check_world_sizes(program, mpirun):
    """Compares runs to steps 20, 40 and 60, on changing numbers of ranks, with 60 steps on one; "4z": 4 with shards."""
    problems = []
    with tempfile.TemporaryDirectory() as parent:
        def train(directory, size, steps):
            partition = "partition=zero" if "z" in size else "partition=data"
            status, output, _, _ = run([*mpirun, "-n", size[0], program, "train", f"{parent}/{directory}",
                                        f"steps={steps}", partition])
            if status != 0:
                problems.append(f"{size} to step {steps}: exit status {status}\n{output}")
            return output

        train("whole", "1", 60)
        whole = losses(f"{parent}/whole")
        for sizes in (("4", "1", "4"), ("4", "2", "4"), ("4", "3", "4"), ("1", "4", "2"), ("4z", "3z", "1"),
                      ("1", "4z", "2z"), ("4z", "2", "4z")):
            directory = "_".join(sizes)
            for size, steps in zip(sizes, (20, 40, 60)):
                output = train(directory, size, steps)
                if steps > 20 and output.count(f"begins at step {steps - 20}\n") != int(size[0]):
                    problems.append(f"{sizes}: not all ranks of {size} go on from step {steps - 20}\n{output}")
            found = losses(f"{parent}/{directory}")
            worst = max(abs(a - b) for a, b in zip(found, whole)) if len(found) == len(whole) else float("inf")
            print(f"world sizes {' '.join(sizes)}: losses differ by {worst:.1e} at most")
            if not worst <= TOLERANCE:
                problems.append(f"world sizes {sizes}: losses differ by {worst}")
    return problems


def newest(directory):
    """The newest checkpoint, by its name."""
    return max((pathlib.Path(directory) / "model").glob("checkpoint_" + 10 * "[0-9]"), default=None)


def left_behind(directory):
    """Everything that could tell two runs apart, except the time they took."""
    directory = pathlib.Path(directory)
    checkpoint = newest(directory)
    tensors = {path.name: path.read_bytes() for path in checkpoint.glob("*.safetensors")}
    best = {str(path.relative_to(directory)): path.read_bytes() for path in directory.glob("best/*/*.safetensors")}
    with open(directory / "log.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {name: [row[name] for row in rows] for name in rows[0] if name not in ("time", "date")}
    return checkpoint.name, tensors, best, losses(directory), columns


def check_kills(program, mpirun, generator, ranks, kills, *options):
    problems, progress = [], []
    with tempfile.TemporaryDirectory() as parent:
        def command(directory, pace=0):
            return [*mpirun, "-n", ranks, program, "train", f"{parent}/{directory}", f"steps={STEPS}", "save=25",
                    f"pace={pace}", *options]

        job = Job(command("whole"))
        status = job.end(max_seconds=120)[0]  # other tests run alongside
        if status != 0:
            return [f"the exit status of the run that is not killed is {status}\n{job.output}"]
        for kill in range(kills):
            job = Job(command("killed", pace=1))  # so that it is killed before it ends
            if not job.wait_until(lambda: job.output.count("begins at step") == ranks):
                problems.append(f"kill {kill}: the run has not begun again\n{job.output}")
                break
            begin = int(re.search(r"begins at step (\d+)", job.output)[1])
            progress.append(begin)
            target = begin + generator.uniform(0, STEPS / kills / 2)
            job.wait_until(lambda: (step := newest(f"{parent}/killed")) and int(step.name[-10:]) >= target)
            time.sleep(generator.uniform(0, 0.02))
            if kill % 10 == 0:
                os.killpg(job.process.pid, 9)  # mpirun's group: the ranks, which are not in it, notice a second later
            elif kill % 4 == 1:
                os.kill(int(generator.choice(re.findall(r"process (\d+), begins", job.output))), 9)
            else:
                job.kill()
            status, _, left = job.end()
            if status == 0:
                problems.append(f"kill {kill}: the run was over")
            if left:
                problems.append(f"kill {kill}: processes are left: {left}")
        job = Job(command("killed"))
        status = job.end(max_seconds=120)[0]
        if status != 0:
            problems.append(f"the exit status of the last run is {status}\n{job.output}")
        elif left_behind(f"{parent}/killed") != left_behind(f"{parent}/whole"):
            problems.append("the run that was killed has ended otherwise than the one that was not")
    print(f"{kills} kills of runs that had begun at steps {' '.join(map(str, progress))} of {STEPS}")
    return problems


def main(program, *mpirun):
    seed = int(os.environ.get("GIRO_SEED", random.randrange(1 << 30)))
    print(f"GIRO_SEED={seed}", flush=True)
    generator = random.Random(seed)
    problems = check_world_sizes(program, mpirun)
    problems += check_kills(program, mpirun, generator, 4, 20, "partition=data", "best=yes")
    kills = int(os.environ.get("GIRO_RESTARTS", "5"))
    problems += check_kills(program, mpirun, generator, 2, kills, "partition=zero", "async=yes", "best=yes")
    return "\n".join(problems) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
