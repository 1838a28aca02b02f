"""What happens to a job when one of its ranks fails: faults_test.py DISTRIBUTED_RANKS MPIRUN...

Each case checks the job's exit status, how soon it ends, what it prints, and that it leaves no process behind.
"""

import concurrent.futures
import os
import pathlib
import re
import sys
import tempfile

from job import copy_with_other_build_id, run

# name: whether the job succeeds, the most seconds from the fault to its end, texts in its output. Timeouts are 3 s.
HAS_WAITED = r"after 3\.\d s: all_reduce of 4 bytes: rank [02] of 3( on cuda:0)? has waited 3\.\d s"
THEN = r"then: barrier on rank [02] of 3: an earlier collective has failed"
CASES = {
    "ends": (True, 5, []),
    "initialized_by_program": (True, 5, []),
    "absent": (False, 3 + 5, [HAS_WAITED, THEN]),
    "absent_in_replay": (False, 3 + 5, [HAS_WAITED, THEN]),
    "absent_from_decision": (False, 3 + 5, [r"after 3\.\d s: .* rank [02] of 3( on cuda:0)? has waited 3\.\d s"]),
    "stopped": (False, 3 + 5, [HAS_WAITED]),
    "throws": (False, 5, ["rank 1 has had enough"]),
    "set_failed": (False, 5, []),
    "killed": (False, 5, []),
    "exits": (False, 5, []),
    "later_step": (False, 30, [r"task 2, .*: a step, at step 20: the step of .*misuse.cpp:\d+: rank 1 has the log "
                              r"entry metrics.more, but rank 0 has nothing more"]),
}

# On GPUs the host sees a replay as a whole.
ON_CUDA = {
    "absent_in_replay": (False, 3 + 5, [
        r"after 3\.\d s: replayed collectives: rank [02] of 3 on cuda:0 has waited 3\.\d s", THEN,
        r"then: replayed collectives: rank [02] of 3"]),
    "mixed": (False, 5, [r"rank 0 asks for cpu, rank 1 for cuda:0"]),
    "no_gpu": (False, 5, [r"communicator: rank 1 has no cuda:5: there are \d+ GPUs"]),
    "same_gpu": (False, 5, [r"rank 0 and rank 1 share the GPU GPU-07000000"]),
}


def cases():
    return CASES | ON_CUDA if os.environ.get("GIRO_TEST_DEVICE") == "cuda" else CASES


def check(name, program, mpirun):
    succeeds, max_seconds, texts = cases()[name]
    gpu = ["-x", "GIRO_CUDA_ON_CPU_UUID=7"] if name == "same_gpu" else []
    status, output, seconds, left = run([*mpirun, *gpu, "-n", "3", program, "fault", name], "is there")
    problems = []
    if (status == 0) != succeeds:
        problems.append(f"the exit status is {status}")
    if output.count("is there") != 3:
        problems.append("not all ranks have come")
    if seconds > max_seconds:
        problems.append(f"it took {seconds:.1f} s, expected at most {max_seconds}")
    problems += [f"the output does not match {text}" for text in texts if not re.search(text, output)]
    if left:
        problems.append(f"processes are left: {left}")
    print(f"{name}: exit status {status} after {seconds:.1f} s")
    return [f"{name}: {problem}\n{output}" for problem in problems]


def check_different_programs(program, mpirun):
    with tempfile.TemporaryDirectory() as directory:
        other = pathlib.Path(directory) / "other"
        copy_with_other_build_id(program, other)
        status, output, seconds, left = run([*mpirun, "-n", "1", program, "fault", "ends", ":", "-n", "1", str(other),
                                             "fault", "ends"])
    print(f"different programs: exit status {status}")
    expected = r"the executable is build [0-9a-f]{40} on rank 0 and build [0-9a-f]{40} on rank 1"
    good = status != 0 and len(re.findall(expected, output)) == 2 and not left
    return [] if good else [f"different programs: exit status {status}, left {left}\n{output}"]


def main(program, *mpirun):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        checks = [pool.submit(check, name, program, mpirun) for name in cases()]
        checks.append(pool.submit(check_different_programs, program, mpirun))
        problems = [problem for each in checks for problem in each.result()]
    return "\n".join(problems) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
