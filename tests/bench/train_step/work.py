"""Shared by all peers: the data, the order of the batches, and the protocol with the benchmark."""

import argparse
import gzip
import json
import os
import pathlib
import sys
import time

UNAVAILABLE = 3  # exit code: this machine lacks something the peer needs


def unavailable(why):
    print(why, file=sys.stderr)
    sys.exit(UNAVAILABLE)


try:
    import numpy as np
except ImportError as missing:
    unavailable(missing)

LEARNING_RATE, B1, B2, EPS, WEIGHT_DECAY = 1e-3, 0.9, 0.999, 1e-8, 1e-4
CHUNK = 100  # steps whose rows are passed together; the length of lax.scan
WARM_UP = 10  # steps, if a peer does not run whole chunks
MAX_EPOCHS = 64  # to shuffle; a longer run starts over with the first


def read_idx(folder, name, header):
    path = pathlib.Path(folder) / name
    raw = path.read_bytes() if path.exists() else gzip.open(f"{path}.gz").read()
    return np.frombuffer(raw, np.uint8, offset=header)


def fashion_mnist(folder):
    """The training set: images (60000, 28, 28) and labels (60000), u8."""
    images = read_idx(folder, "train-images-idx3-ubyte", 16).reshape(-1, 28, 28)
    return images.copy(), read_idx(folder, "train-labels-idx1-ubyte", 8).copy()


def row_chunks(seed, num_rows, batch, steps):
    """The rows of each step, (chunks, CHUNK, batch) i32: consecutive shuffled epochs. A batch may span two."""
    chunk = CHUNK * batch
    count = min(-(-steps // CHUNK), max(1, MAX_EPOCHS * num_rows // chunk))
    rng = np.random.default_rng(seed)
    epochs = [rng.permutation(num_rows) for _ in range(-(-count * chunk // num_rows))]
    return np.concatenate(epochs)[:count * chunk].reshape(count, CHUNK, batch).astype(np.int32)


def logged(losses, first_step, log_every):
    """The losses of a chunk that are due for logging, where first_step is the number of the first step."""
    return [loss for step, loss in enumerate(losses, first_step + 1) if log_every and step % log_every == 0]


def serve(make):
    """Serves requests on standard input: each line {"seed", "steps"} is answered by a line with seconds and losses.

    make(args) returns a trainer with `unit`, of which steps must be a multiple; `version`; reset(seed, chunks), which
    starts over with the rows of row_chunks; and train(steps), which returns the logged losses when all work is done.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for output of libraries
    parser = argparse.ArgumentParser()
    parser.add_argument("contestant")
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--log-every", type=int, required=True)
    parser.add_argument("--data", required=True)
    args = parser.parse_args()
    args.images, args.labels = fashion_mnist(args.data)

    def answer(**what):
        print(json.dumps(what), file=answers, flush=True)

    trainer = make(args)
    warm_up = -(-WARM_UP // trainer.unit) * trainer.unit
    trainer.reset(0, row_chunks(0, len(args.images), args.batch, warm_up))
    trainer.train(warm_up)
    answer(unit=trainer.unit, version=trainer.version)
    for line in sys.stdin:
        request = json.loads(line)
        steps = request["steps"]
        trainer.reset(request["seed"], row_chunks(request["seed"], len(args.images), args.batch, steps))
        start = time.perf_counter()
        losses = trainer.train(steps)
        answer(seconds=time.perf_counter() - start, losses=losses)
