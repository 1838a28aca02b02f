"""Compares giro's MNIST sample with PyTorch and JAX, in steps per second of the same training, interleaved in one run.

Prints for each model, batch and logging interval the median and range of every contestant, giro's speedup over each,
and whether the loss curves agree. Exits with 1 if they do not, or if a case was skipped for lack of time, and with 2 if
it cannot compare. Needs a Python with NumPy and the peers to compare: torch, jax or both.
"""

import argparse
import datetime
import itertools
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
import typing

import curves
from contestants import PEERS, Failed, Giro, Peer

# giro's target speedup over the best peer in f32, by device, model and batch.
TARGETS = {
    "cpu": {"linear": {32: 2.5, 128: 2.2, 1024: 2.0}, "cnn": {32: 1.5, 128: 1.5, 1024: 1.4}},
    "cuda": {"linear": {32: 3.0}, "cnn": {32: 3.0, 128: 3.0, 1024: 3.0}},
}
# The best of each family is reported separately.
FAMILIES = {"torch graph": ["torch-graph", "torch-compile-graph"], "JAX scan": ["jax-scan"]}
MODELS = ["linear", "cnn"]
DTYPES = ["f32", "tf32", "bf16", "f16"]
MIN_STEPS = 20  # per round, however slow
# A peer is left out if the fewest steps that it can train take longer than this many rounds.
MAX_ROUND = 5


class Case(typing.NamedTuple):
    model: str
    batch: int
    log_every: int
    dtype: str

    def __str__(self):
        logs = {0: "no loss logged", 1: "the loss of every step logged"}
        says = logs.get(self.log_every, f"a loss logged every {self.log_every} steps")
        return f"{self.model}, {self.dtype}, batch {self.batch}, {says}"


def steps_for(contestant, seconds):
    """About as many steps as the contestant trains in that time, at least MIN_STEPS, as a multiple of its unit."""
    steps = math.ceil(10 / contestant.unit) * contestant.unit
    while True:
        taken, _ = contestant.train(0, steps)
        if steps == contestant.unit and taken > MAX_ROUND * seconds:
            raise Failed(f"{taken:.0f} s for the {steps} steps that it trains at a time", Failed.SLOW)
        wanted = math.ceil(max(MIN_STEPS, steps / taken * seconds) / contestant.unit) * contestant.unit
        if taken >= 0.7 * seconds:
            return wanted
        steps = min(wanted, 10 * steps)  # few steps are a poor estimate


def start(case, args, gone):
    """The contestants that train, and the steps of each. `gone` holds, by name, model and dtype, the smallest batch for
    which a contestant is skipped."""
    field, steps = [], {}
    for name in ["giro", *args.peers]:
        if case.batch >= gone.get((name, case.model, case.dtype), math.inf):
            continue
        contestant = None
        try:
            contestant = Giro(case, args) if name == "giro" else Peer(name, case, args)
            steps[name] = steps_for(contestant, args.seconds)
            field.append(contestant)
        except Failed as failure:
            if contestant:
                contestant.close()
            if name == "giro":
                raise
            where = f"{case}: "
            if failure.extent == Failed.SLOW:
                where = f"{case.model}, {case.dtype}, batch {case.batch} or more: "
                gone[name, case.model, case.dtype] = case.batch
            elif failure.extent == Failed.EVERYWHERE:
                where = ""
                gone.update({(name, model, dtype): 0 for model in MODELS for dtype in DTYPES})
            print(f"{where}without {name}: {failure}", flush=True)
    return field, steps


def measure(case, args, gone):
    """For each contestant its steps per round, and by round its speed (steps per second) and losses."""
    field, steps = start(case, args, gone)
    runs = {one.name: {"version": one.version, "steps": steps[one.name], "speeds": [], "losses": []} for one in field}
    try:
        for seed in range(args.rounds):
            for one in field[seed % len(field):] + field[:seed % len(field)]:  # rotate who goes first
                seconds, losses = one.train(seed, steps[one.name])
                runs[one.name]["speeds"].append(steps[one.name] / seconds)
                runs[one.name]["losses"].append(losses)
    except Failed as failure:
        raise Failed(f"{case}: {one.name} stopped training: {failure}") from None
    finally:
        for one in field:
            one.close()
    return runs


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def best_of(rows):
    return max(rows, key=lambda row: statistics.median(row["speeds"]), default=None)


def report(case, runs, args):
    """Prints the case's table. Returns the record for the file, and whether all curves agree."""
    print(f"\n{case}\n  {'':20} {'steps/s':>28} {'giro is faster by':>22}  loss curve")
    giro = runs.pop("giro")
    rows = [{"contestant": "giro", "version": giro["version"], "steps": giro["steps"], "speeds": giro["speeds"]}]
    print(f"  {'giro':20} {spread(giro['speeds'], 1):>28} {1e6 / statistics.median(giro['speeds']):>19.1f} us")
    agree = True
    for name, peer in runs.items():
        ratios = [ours / theirs for ours, theirs in zip(giro["speeds"], peer["speeds"])]
        curve, says = None, "not compared"
        if case.log_every == 1:
            comparison = curves.Comparison(giro["losses"], peer["losses"])
            curve, says = comparison.agree if comparison.comparable else None, str(comparison)
            agree &= comparison.agree
        print(f"  {name:20} {spread(peer['speeds'], 1):>28} {spread(ratios, 2):>22}  {says}")
        if curve is False:
            print(comparison.table())
        rows.append({"contestant": name, "version": peer["version"], "steps": peer["steps"], "speeds": peer["speeds"],
                     "ratios": ratios, "curves_agree": curve})
    best = best_of(rows[1:])
    families = {}
    for family, names in FAMILIES.items():
        if row := best_of([row for row in rows[1:] if row["contestant"] in names]):
            families[family] = {"contestant": row["contestant"], "ratios": row["ratios"]}
            print(f"  giro to the best {family}, {row['contestant']}: {spread(row['ratios'], 2)}")
    target = TARGETS[args.device][case.model].get(case.batch) if case.dtype == "f32" else None
    if best:
        says = ""
        if target:
            met = statistics.median(best["ratios"]) >= target
            says = f"; target {target:.1f}: {'met' if met else 'MISSED'}"
        print(f"  giro to the best peer, {best['contestant']}: {spread(best['ratios'], 2)}{says}", flush=True)
    return {**case._asdict(), "rows": rows, "best_peer": best and best["contestant"], "best_of": families,
            "target": target}, agree


def machine(device):
    if device == "cuda":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().partition("\n")[0]
    models = (line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    return f"{next(models, platform.machine()).partition(': ')[2]}, core {min(os.sched_getaffinity(0))}, one thread"


def parse_args():
    root = pathlib.Path(__file__).resolve().parents[3]
    parser = argparse.ArgumentParser(prog="train_step", description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=PEERS, default="cpu")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=[32, 128, 1024])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["f32"], help="what all of them compute in")
    parser.add_argument("--log-every", nargs="+", type=int, default=[1, 100, 0], help="steps; 0: never")
    parser.add_argument("--peers", nargs="*", help=f"of {', '.join(PEERS['cuda'])}; default: all of the device")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3, help="that each contestant trains in a round")
    parser.add_argument("--minutes", type=float, help="after which no further case begins")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a peer may take to compile and warm up")
    parser.add_argument("--sample", default=str(root / "build/samples/mnist"), help="giro's sample, built")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--json", help="file to write every round's figures to")
    args = parser.parse_args()
    if args.rounds < 2:
        parser.error("--rounds must be at least 2, to know the spread")
    if min(args.batches) < 1 or min(args.log_every) < 0 or args.seconds <= 0 or args.limit <= 0:
        parser.error("batches, seconds and the limit must be positive, and --log-every not negative")
    if args.peers is None:
        args.peers = PEERS[args.device]
    if unknown := set(args.peers) - set(PEERS[args.device]):
        parser.error(f"{args.device} has no peer {', '.join(sorted(unknown))}, but {', '.join(PEERS[args.device])}")
    return args


def main():
    args = parse_args()
    if args.device == "cpu":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # inherited by child processes
    where = machine(args.device)
    print(f"{datetime.date.today()}, {where}, {args.rounds} interleaved rounds of about {args.seconds:g} s; "
          "median (lowest-highest)", flush=True)
    gone, versions, cases, ok, disagree = {}, set(), [], True, False
    end = time.monotonic() + 60 * args.minutes if args.minutes else math.inf
    longest = 0
    for case in itertools.starmap(Case, itertools.product(args.models, args.batches, args.log_every, args.dtypes)):
        begin = time.monotonic()
        if begin + longest > end:
            print(f"\n{case}: not measured, for the {args.minutes:g} minutes are over")
            ok = False
            continue
        runs = measure(case, args, gone)
        new = {run["version"] for name, run in runs.items() if name != "giro"} - versions
        if new:
            print("\n".join(sorted(new)))
        versions |= new
        result, agree = report(case, runs, args)
        cases.append(result)
        longest = max(longest, time.monotonic() - begin)
        ok &= agree
        disagree |= not agree
        if args.json:  # after each case, so that an interrupted run keeps its results
            what = {"date": str(datetime.date.today()), "machine": where, "device": args.device,
                    "rounds": args.rounds, "seconds": args.seconds, "cases": cases}
            pathlib.Path(args.json).write_text(json.dumps(what, indent=1) + "\n")
    if disagree:
        print("\nTHE LOSS CURVES DISAGREE")
    return 0 if ok else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, OSError, subprocess.CalledProcessError) as error:
        print(f"train_step: {error}", file=sys.stderr)
        sys.exit(2)
