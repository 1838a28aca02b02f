"""What all peers have in common: the data, the order of the batches, and the conversation with the benchmark."""

import argparse
import gzip
import json
import os
import pathlib
import sys
import time

UNAVAILABLE = 3  # exit code: this machine does not have what the peer needs


def unavailable(why):
    print(why, file=sys.stderr)
    sys.exit(UNAVAILABLE)


try:
    import numpy as np
except ImportError as missing:
    unavailable(missing)

LEARNING_RATE, B1, B2, EPS, WEIGHT_DECAY = 1e-3, 0.9, 0.999, 1e-8, 1e-4
CHUNK = 100  # steps whose rows are handed over together; what lax.scan runs over
WARM_UP = 10  # steps, where a peer does not run a chunk at a time
MAX_EPOCHS = 64  # that are shuffled; a longer run begins again with the first


def read_idx(folder, name, header):
    path = pathlib.Path(folder) / name
    raw = path.read_bytes() if path.exists() else gzip.open(f"{path}.gz").read()
    return np.frombuffer(raw, np.uint8, offset=header)


def fashion_mnist(folder):
    """The training set: images (60000, 28, 28) and labels (60000), u8."""
    images = read_idx(folder, "train-images-idx3-ubyte", 16).reshape(-1, 28, 28)
    return images.copy(), read_idx(folder, "train-labels-idx1-ubyte", 8).copy()


def row_chunks(seed, num_rows, batch, steps):
    """The rows of each step, (chunks, CHUNK, batch) i32: epoch after epoch, each shuffled. A batch may span two."""
    chunk = CHUNK * batch
    count = min(-(-steps // CHUNK), max(1, MAX_EPOCHS * num_rows // chunk))
    rng = np.random.default_rng(seed)
    epochs = [rng.permutation(num_rows) for _ in range(-(-count * chunk // num_rows))]
    return np.concatenate(epochs)[:count * chunk].reshape(count, CHUNK, batch).astype(np.int32)


def logged(losses, first_step, log_every):
    """Those of a chunk's losses that are due, where the step of the first one is first_step."""
    return [loss for step, loss in enumerate(losses, first_step + 1) if log_every and step % log_every == 0]


def serve(make):
    """Trains as standard input asks: a line {"seed", "steps"} is answered by one with the seconds and the losses.

    make(args) returns a trainer: `unit`, whose multiples it can train; `version`; reset(seed, chunks), which starts anew
    with the rows of row_chunks; and train(steps), which returns the losses that were logged when all is done.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints
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
