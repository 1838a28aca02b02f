"""What happens to a training run when one of its ranks fails: training_faults_test.py DISTRIBUTED_RANKS MPIRUN...

Each case checks the job's exit status, how soon it ends after the fault, what it prints, that it leaves no process behind, and the
checkpoint from which it can resume. The run makes 40 steps and saves after 10, 20, 30 and 40. It is random whether each
rank holds the whole state, or a shard of the moments that it saves itself.
"""

import concurrent.futures
import itertools
import os
import pathlib
import random
import re
import sys
import tempfile

from job import run

KINDS = ("kill", "segv", "exit", "throw")  # the ways to die
TIMEOUT = 2  # seconds that a rank waits for the others, if one hangs


class Case:
    def __init__(self, name, ranks, texts=(), newest=(), succeeds=False, max_seconds=5, before=(), since=None,
                 **options):
        self.name, self.ranks, self.texts, self.newest = f"{name}, {ranks} ranks", ranks, texts, newest
        self.succeeds, self.max_seconds, self.before = succeeds, max_seconds, before
        self.goes_astray = options.get("fault", "nan") != "nan"
        # The line from which its end is timed, if not from its start. A rank prints "astray" at its fault.
        self.since = since or ("astray" if self.goes_astray else None)
        self.options = [f"{key}={value}" for key, value in options.items()]


def deaths(generator):
    """Cases of a dying rank: with 4 ranks every way at init, in a step, in a save and at the end, else one way."""
    places = {"init": (), "start": (), "step": (10,), "save of rank 0": (10,), "save": (10, 20), "finish": (40,),
              "end": (40,)}
    for (number, (place, newest)), kind, ranks in itertools.product(enumerate(places.items()), KINDS, (2, 4)):
        is_rest = place in ("start", "save of rank 0", "finish")
        if (ranks == 2 or is_rest) and kind != KINDS[(number + ranks // 4) % len(KINDS)]:
            continue
        rank = 0 if place == "save of rank 0" else generator.randrange(1, ranks)
        options = dict(fault=kind, at=place.split()[0], rank=rank, step=19)
        if place == "save of rank 0":
            options["call"] = generator.randrange(1, 5)  # the save's calls; the last one makes it a checkpoint
        if place == "init":
            options["timeout"] = TIMEOUT * 1000
        texts = []
        if kind == "throw" and place != "init" and place != "end":
            at = {"start": "0", "finish": "40"}.get(place, "(19|20)")
            texts = [rf"rank {rank} of {ranks}, (task \d, .*|on_start or on_end): .*, at step {at}: has had enough"]
        # Only mpirun could tell that a rank is missing that exited with 0 before it began.
        most = TIMEOUT + 5 if (kind, place) == ("exit", "init") else 5
        yield Case(f"{kind} at {place}", ranks, texts, newest, max_seconds=most, **options)


def cases(generator):
    yield from deaths(generator)
    for ranks in (2, 4):
        rank = generator.randrange(ranks)
        other = generator.randrange(1, ranks)
        waited = rf"all_reduce of \d+ bytes: rank \d of {ranks} has waited {TIMEOUT}\.\d s"
        wrong = (rf"({waited}|all_reduce of \d+ bytes on rank \d of {ranks}: MPI reports|"
                 "the ranks are not at the same point)")
        yield Case("an error that the program catches", ranks, [f"caught: rank {rank} of {ranks}, task 1, .*at step 7"],
                   fault="throw", rank=rank, caught="yes")
        yield Case("the same in on_end", ranks, [f"caught: rank 0 of {ranks}, on_start or on_end: .*, at step 40"], (40,),
                   fault="throw", at="finish", rank=0, caught="yes")
        yield Case("stopped", ranks, [rf"rank \d of {ranks}, task \d, every\(1\): .*, at step 19: {waited}"], (10,),
                   max_seconds=TIMEOUT + 5, fault="stop", rank=rank, step=19, timeout=TIMEOUT * 1000)
        yield Case("one step more", ranks, [rf"rank \d of {ranks}, .*, at step \d+: {wrong}"], (10,),
                   max_seconds=TIMEOUT + 5, fault="skip", rank=rank, step=19, timeout=TIMEOUT * 1000)
        yield Case("slow but alive", ranks, [f"rank {rank} ended after 40 steps"], (40,), True, 20,
                   fault="slow", rank=rank, step=20, timeout=TIMEOUT * 1000)
        yield Case("NaN", ranks, [f"rank {each} ended after 6 steps" for each in range(ranks)], (2,), True,
                   fault="nan", rank=rank, step=2, save=2)
        yield Case("NaN that nobody minds", ranks, [f"rank {each} ended after 20 steps" for each in range(ranks)], (2,),
                   True, fault="nan", rank=rank, step=2, save=2, nan="ignore", steps=20)
        for partition in ("data", "zero"):
            same = rf"(?s)ended after 12 steps, signal 0, params (\w+)\n(.*params \1\n){{{ranks - 1}}}"
            each = [f"rank {each}: loss is nan at step .*: restored '" for each in range(ranks)]
            yield Case("NaN that is left behind", ranks, [same, *each], range(2, 13), True,
                       fault="nan", rank=rank, step=2, save=2, nan="restore", steps=12, partition=partition)
        yield Case("NaN that nobody minds for long", ranks, ["step 22 is not saved: .* is not finite, nor are the 9"], (2,),
                   since="is not saved", fault="nan", rank=rank, step=2, save=2, nan="ignore")
        # If all ranks fail, and each has the whole state, rank 0 may save before mpirun ends it.
        for partition, at in (("data", -1), ("zero", -1), ("zero", other)):
            yield Case("no batch" + (" on all ranks" if at < 0 else ""), ranks, ["there is no such batch"], (10, 19),
                       fault="data", rank=at, step=19, partition=partition)
        yield Case("another number of steps", ranks, [f"the loop: rank {other} has stop: 41, but rank 0 has stop: 40"],
                   rank=other, other_steps=1)
        yield Case("another batch", ranks, [f"the dataset: rank {other} has batch: 36.*, but rank 0 has batch: 24"],
                   rank=other, other_batch=12)
        yield Case("another seed", ranks,
                   [f"the dataset: rank {other} has order: shuffled with seed 4, but rank 0 has .* seed 3"],
                   rank=other, other_seed=1)
        yield Case("the name of another directory", ranks,
                   [f"checkpoint: the directory: rank {other} has .*elsewhere/model, but rank 0 has .*/model"],
                   rank=other, other_dir="elsewhere")
        yield Case("another directory", ranks,
                   [rf"rank \d of {ranks}, .*: checkpoint '.*/model', a directory that all ranks must see: rank \d has "
                    "(no checkpoint|step 20), but rank 0 has (no checkpoint|step 20)"],
                   (20,), rank=rank, other_cwd="elsewhere", before=("steps=20",))
        yield Case("another directory for a shard", ranks,
                   [f"a directory that all ranks must see: rank {other} has no writer .*, but rank 0 has process"],
                   rank=other, other_cwd="elsewhere", partition="zero")
        yield Case("stopped in its save", ranks,
                   [rf"({waited}|shard\(s\) {other} of {ranks} did not arrive within {TIMEOUT} s)"],
                   # When mpirun ends all ranks, it continues the stopped one, which may then still be in time.
                   (10, 20), max_seconds=TIMEOUT + 5, fault="stop", at="save", rank=other, step=19, timeout=TIMEOUT * 1000,
                   partition="zero")


def check(case, program, mpirun):
    command = [*mpirun, "-n", case.ranks, program, "train"]
    with tempfile.TemporaryDirectory() as directory:
        options = [option.replace("=elsewhere", f"={directory}/elsewhere") for option in case.options]
        problems = []
        if case.before and run([*command, directory, *case.before])[0] != 0:
            problems.append("the run before has failed")
        status, output, seconds, left = run([*command, directory, *options], case.since)
        if (status == 0) != case.succeeds:
            problems.append(f"the exit status is {status}")
        faults = output.count("astray")
        if faults != case.goes_astray and not (faults > 1 and "rank=-1" in options):  # -1: all ranks
            problems.append(f"{faults} ranks have gone astray, expected {int(case.goes_astray)}")
        if seconds > case.max_seconds:
            problems.append(f"it took {seconds:.1f} s, expected at most {case.max_seconds}")
        problems += [f"the output does not match {text}" for text in case.texts if not re.search(text, output)]
        if left:
            problems.append(f"processes are left: {left}")
        if case.newest:
            newest = run([program, "train", directory, "newest"])[1]
            if newest not in [f"step {step}, 0 damaged\n" for step in case.newest]:
                problems.append(f"the newest checkpoint is {newest}, expected {case.newest}")
        elif pathlib.Path(directory, "model").exists() and any(
                "checkpoint" in name for name in os.listdir(f"{directory}/model")):
            problems.append("there is a checkpoint")
    print(f"{case.name}, {case.options[-1]}: exit status {status} after {seconds:.1f} s")
    return [f"{case.name}: {problem}\n{output}" for problem in problems]


def main(program, *mpirun):
    seed = int(os.environ.get("GIRO_SEED", random.randrange(1 << 30)))
    print(f"GIRO_SEED={seed}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        generator = random.Random(seed)
        checks = []
        for case in list(cases(generator)):
            if not any(option.startswith("partition=") for option in case.options):
                case.options.append("partition=" + generator.choice(("data", "zero")))
            checks.append(pool.submit(check, case, program, mpirun))
        return "\n".join(problem for each in checks for problem in each.result()) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
