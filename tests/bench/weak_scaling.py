#!/usr/bin/python3
"""How data-parallel training scales over CPU ranks: the MNIST sample under mpirun, with the same batch size on every
rank and one thread per rank, so that n ranks do n times the work of one.

Prints samples per second for each number of ranks, as medians of interleaved rounds, and the efficiency: the speed per
rank relative to a single rank. Results with more ranks than cores are meaningless.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile


def samples_per_second(args, ranks):
    env = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    batch = args.batch * ranks
    with tempfile.TemporaryDirectory() as directory:
        command = ["mpirun", "--bind-to", "core", "-n", str(ranks), args.sample, "--model", args.model, "--device", "cpu",
                   "--partition", "data", "--batch", str(batch), "--steps", str(args.steps), "--data", args.data,
                   "--logdir", directory + "/run"]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    result = next(line for line in out.stdout.splitlines() if line.startswith("result: "))
    return batch * json.loads(result.removeprefix("result: "))["steps_per_second"]


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", default=str(root / "build/samples/mnist"), help="giro's sample, built with MPI")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--batch", type=int, default=32, help="samples a step on each rank")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()
    speeds = {ranks: [] for ranks in args.ranks}
    for _ in range(args.rounds):
        for ranks in args.ranks:
            speeds[ranks].append(samples_per_second(args, ranks))
    alone = statistics.median(speeds[args.ranks[0]]) / args.ranks[0]
    for ranks in args.ranks:
        speed = statistics.median(speeds[ranks])
        print(f"{ranks:3} ranks: {speed:9.0f} samples/s, efficiency {speed / ranks / alone:.2f}")


if __name__ == "__main__":
    main()
