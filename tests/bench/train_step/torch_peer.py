"""PyTorch: eager or with torch.compile, on a GPU also with the whole step in a CUDA graph."""

import math
import pathlib
import sys

import work

try:
    import torch
except ImportError as error:
    work.unavailable(error)
from torch import nn


def make_model(name):
    if name == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(7 * 7 * 64, 256), nn.ReLU(), nn.Linear(256, 10))


def initialize(layer):
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        # lecun_normal: truncated at two standard deviations, then scaled back to variance 1 / fan_in.
        std = math.sqrt(1 / layer.weight[0].numel()) / 0.87962566103423978
        nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std)
        nn.init.zeros_(layer.bias)


def version():
    """torch and its BLAS, which determines the speed of dense layers: PyPI's is built in, Debian's is the system's."""
    maps = pathlib.Path("/proc/self/maps").read_text().split()
    blas = sorted({word for word in maps if pathlib.Path(word).name.startswith("libblas")})
    return f"torch {torch.__version__}, BLAS {' '.join(blas) or 'built in'}"


class Trainer:
    unit = 1

    def __init__(self, args):
        if args.device == "cuda" and not torch.cuda.is_available():
            work.unavailable(f"torch {torch.__version__} finds no usable GPU")
        if args.device == "cpu":
            torch.set_num_threads(1)
        tf32 = args.dtype == "tf32"
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
        self.autocast = {"bf16": torch.bfloat16, "f16": torch.float16}.get(args.dtype)
        self.scales = args.dtype == "f16"
        if self.scales and args.contestant.endswith("-graph"):
            sys.exit("torch.amp.GradScaler decides on the host, which a graph cannot hold")
        torch.backends.cudnn.benchmark = True
        self.device, self.log_every = args.device, args.log_every
        self.images = torch.from_numpy(args.images).view(-1, 1, 28, 28).to(self.device)
        self.labels = torch.from_numpy(args.labels).long().to(self.device)
        # The faster layout for convolutions.
        self.model = make_model(args.model).to(self.device, memory_format=torch.channels_last)
        compiled = "-compile" in args.contestant
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=work.LEARNING_RATE, betas=(work.B1, work.B2), eps=work.EPS,
            weight_decay=work.WEIGHT_DECAY, fused=not compiled, capturable=self.device == "cuda")
        if compiled:
            self.loss_of = torch.compile(self.loss_of)
            self.optimizer.step = torch.compile(self.optimizer.step)
        self.version = version()
        if args.contestant.endswith("-graph"):
            self.capture(args.batch)
            self.train = self.replay

    def loss_of(self, rows):
        images = self.images.index_select(0, rows).float() / 255
        with torch.autocast(self.device, self.autocast, enabled=self.autocast is not None):
            return nn.functional.cross_entropy(self.model(images), self.labels.index_select(0, rows))

    def step(self, rows):
        loss = self.loss_of(rows)
        self.optimizer.zero_grad(set_to_none=True)
        if self.scales:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()
        return loss.detach()

    def reset(self, seed, chunks):
        """Resets in place, because compiled code and graphs hold the addresses."""
        torch.manual_seed(seed)
        if self.scales:
            self.scaler = torch.amp.GradScaler(self.device)
        self.model.apply(initialize)
        for state in self.optimizer.state.values():
            for tensor in state.values():
                tensor.zero_()
        self.chunks = torch.from_numpy(chunks).long().to(self.device)
        self.synchronize()

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def train(self, steps):
        losses = []
        for step in range(steps):
            rows = self.chunks[step // work.CHUNK % len(self.chunks), step % work.CHUNK]
            loss = self.step(rows)
            if self.log_every and (step + 1) % self.log_every == 0:
                losses.append(loss.item())
        self.synchronize()
        return losses

    def capture(self, batch):
        self.rows = torch.zeros((work.CHUNK, batch), dtype=torch.long, device=self.device)
        self.losses = torch.zeros(work.CHUNK, device=self.device)
        self.position = torch.zeros(1, dtype=torch.long, device=self.device)  # in rows and losses

        def step():
            loss = self.step(self.rows.index_select(0, self.position).view(-1))
            self.losses.index_copy_(0, self.position, loss.view(1))
            self.position.add_(1)

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(work.WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            step()

    def replay(self, steps):
        losses = []
        for begin in range(0, steps, work.CHUNK):
            count = min(work.CHUNK, steps - begin)
            self.rows.copy_(self.chunks[begin // work.CHUNK % len(self.chunks)])
            self.position.zero_()
            for _ in range(count):
                self.graph.replay()
            if self.log_every and begin // self.log_every != (begin + count) // self.log_every:
                losses += work.logged(self.losses[:count].tolist(), begin, self.log_every)
        self.synchronize()
        return losses


if __name__ == "__main__":
    work.serve(Trainer)
