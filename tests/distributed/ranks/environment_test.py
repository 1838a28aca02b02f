"""Ranks without MPI, on emulated GPUs, with the environment that torchrun or Slurm sets: environment_test.py
DISTRIBUTED_RANKS PRELOAD

Each case checks every rank's exit status, how soon it ends, what it prints, and that no process is left behind. There
is no launcher to end a rank when another has failed.
"""

import concurrent.futures
import itertools
import os
import pathlib
import re
import sys
import tempfile

from job import Job, copy_with_other_build_id

NUMBERS = itertools.count()  # of jobs, so that ranks of different jobs never meet
# Tests that take long and do not depend on how the ranks have met.
LONG = "*MatchesOneProcess:*TrainAsOneProcess:*MatchesUnsharded:*GivesTheSameBits*:*MicroBatches*:LayersOfRanks.*"


def torchrun(rank, size, number):
    return {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": f"giro-{os.getpid()}",
            "MASTER_PORT": 10000 + number}


def slurm(rank, size, number):
    return {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": size, "SLURM_LOCALID": rank, "SLURM_STEP_NUM_NODES": 1,
            "SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": number}


class Case:
    def __init__(self, name, arguments, statuses=(0, 0), texts=(), by=torchrun, max_seconds=5, program=None,
                 **variables):
        self.name, self.arguments, self.statuses, self.texts, self.by = name, arguments, statuses, texts, by
        self.max_seconds, self.program, self.variables = max_seconds, program, variables


def suite(filter):
    return [f"--gtest_filter={filter}", "--gtest_brief=1", "--gtest_catch_exceptions=0"]


def cases(other_program):
    meets = r"World: rank 0 of 2, started by torchrun, cannot connect to the others at giro-\d+:\d+: "
    return [
        Case("alone with a GPU", suite("Ranks.*"), (0,), max_seconds=120),
        # Here the hosts make decisions through the GPUs, and wait for them.
        Case("two ranks", suite(f"*:-{LONG}:*HostWaitsForNoStep"), max_seconds=120),
        Case("four ranks", suite("Ranks.*:MeshOfRanks.*"), (0,) * 4, max_seconds=120),
        Case("Slurm", suite("Ranks.*"), by=slurm, max_seconds=120),
        Case("a rank throws", ["fault", "throws"], (-6, -6), ["rank 1 has had enough", "NCCL reports"]),
        Case("a rank fails", ["fault", "set_failed"], (1, 3), ["rank 0 of 2 on cuda:0: NCCL reports"]),
        Case("a rank is killed", ["fault", "killed"], (1, -9), ["rank 0 of 2 on cuda:0: NCCL reports"]),
        Case("a rank is stopped", ["fault", "stopped"], (1, None), [r"rank 0 of 2 on cuda:0 has waited 3\.\d s"],
             max_seconds=8),
        Case("a rank that does not decide", ["fault", "absent_from_decision"], (1, None),
             [r"rank 0 of 2 on cuda:0 has waited 3\.\d s"], max_seconds=8),
        Case("a rank on the CPU", ["fault", "mixed"], (1, 1), ["rank 0 asks for cpu, rank 1 for cuda:0"]),
        Case("a rank that does not come", ["fault", "absent"], (1,), [meets + r".* has waited 3\.\d s"],
             max_seconds=8, WORLD_SIZE=2),
        Case("two ranks on one GPU", ["fault", "ends"], (1, 1), [meets + ".*NCCL reports: .*Duplicate GPU"],
             GIRO_CUDA_ON_CPU_UUID=7),
        Case("different programs", ["fault", "ends"], (1, 1),
             [r"the executable is build [0-9a-f]{40} on rank 0 and build [0-9a-f]{40} on rank 1"], program=other_program),
        Case("a program that initializes MPI", ["fault", "initialized_by_program"], (1, 1),
             ["torchrun has started 2 processes, but the MPI that giro was built with sees 1"],
             TORCHELASTIC_RUN_ID=1),
        Case("no GPU", ["fault", "ends"], (1, 1), [r"with one GPU each, but rank 0 has none: .*mpirun -n 2 PROGRAM"],
             LD_PRELOAD="", CUDA_VISIBLE_DEVICES=""),
        Case("alone without a GPU", ["fault", "ends"], (0,), LD_PRELOAD="", CUDA_VISIBLE_DEVICES="",
             GIRO_TEST_DEVICE="cpu"),
        Case("no rank", ["fault", "ends"], (1, 1), ["variable RANK is empty"], RANK=""),
        Case("too high a rank", ["fault", "ends"], (1, 1), ['RANK is "2", expected a number from 0 to 1'], RANK=2),
    ]


def check(case, program, preload):
    size, number = len(case.statuses), next(NUMBERS)
    jobs = []
    for rank in range(size):
        variables = {"LD_PRELOAD": preload, "GIRO_TEST_DEVICE": "cuda", **case.by(rank, size, number), **case.variables}
        chosen = case.program if case.program and rank == 1 else program
        words = [f"{name}={value}" for name, value in variables.items()]
        jobs.append(Job(["env", *words, chosen, *case.arguments], "is there"))
    problems = []
    ends = {}
    for rank, job in enumerate(jobs):
        if case.statuses[rank] is not None:
            ends[rank] = job.end(case.max_seconds)
    for rank, job in enumerate(jobs):
        if case.statuses[rank] is None:
            job.kill()
            job.end()
    for rank, (status, seconds, left) in ends.items():
        if status != case.statuses[rank]:
            problems.append(f"the exit status of rank {rank} is {status}, expected {case.statuses[rank]}")
        if left:
            problems.append(f"processes are left: {left}")
    output = "".join(job.output for job in jobs)
    problems += [f"the output does not match {text}" for text in case.texts if not re.search(text, output)]
    print(f"{case.name}: exit statuses {[status for status, _, _ in ends.values()]} after "
          f"{max(seconds for _, seconds, _ in ends.values()):.1f} s", flush=True)
    return [f"{case.name}: {problem}\n{output}" for problem in problems]


def main(program, preload):
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(3) as pool:
        other = pathlib.Path(directory) / "other"
        copy_with_other_build_id(program, other)
        checks = [pool.submit(check, case, program, preload) for case in cases(other)]
        return "\n".join(problem for each in checks for problem in each.result()) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
