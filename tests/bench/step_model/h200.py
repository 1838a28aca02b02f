"""The time of a kernel on an H200, computed from its traffic, arithmetic and occupancy. All times are in microseconds.

The model includes latencies, bandwidths, occupancy, waves and instruction counts. It ignores bank conflicts,
divergence, slow instructions, and how branches of a graph share the GPU.
"""

import math
import typing

SMS = 132
# Bytes and FLOPs per microsecond. [measured]: on an H200. [vendor]: NVIDIA's tables. [unverified]: to be measured in
# the first run on a GPU.
DRAM = 4.3e6  # a copy [measured]
L2 = 7.0e6  # 5.5 to 6 on an H100 PCIe with 114 slower SMs [unverified]
L2_BYTES = 60e6  # [measured]
CLOCK = 1.755e3  # cycles per microsecond [unverified]
SM_L2 = 64 * CLOCK  # one SM loads 64 bytes per cycle [unverified]
SM_ISSUES = 128 * CLOCK  # thread instructions, or FLOPs without FMA: four schedulers, one warp each [vendor]
DRAM_LATENCY, L2_LATENCY = 0.65, 0.26  # [unverified]
# f32: FMA [vendor]; bf16 [measured]; tf32 half of it [vendor].
PEAK = {"f32": 66.9e6, "tf32": 390e6, "bf16": 780e6, "f16": 780e6}
# A dependency in a graph: from the end of a kernel to the start of the next [unverified].
GAP = 1.2
# A kernel's start until its first loads are under way, plus its end after the last stores [unverified].
START, LIBRARY_START = 0.8, 1.8
# A fence that the next instruction waits for, within the GPU and over PCIe, and a block's barrier [unverified]. Stores
# to host memory without a fence after them are posted writes and take no time [unverified].
DEVICE_FENCE, SYSTEM_FENCE, BARRIER = 0.5, 1.0, 0.03
# Fractions of the peak: library products by tile size, with a further factor for convolutions [unverified], and giro's
# tiled products, from their inner loop [unverified].
TILE_EFFICIENCY = {(128, 128): 0.85, (128, 64): 0.75, (128, 32): 0.6, (64, 64): 0.6, (64, 32): 0.5, (32, 32): 0.4}
CONVOLUTION_EFFICIENCY = 0.7
TILED_EFFICIENCY = 0.7  # 66 to 81 % of the instructions in the loop are FMA
PRODUCT = 2 * 16 * 8 * 16  # FLOPs of an mma.m16n8k16
WARPS_FOR_PEAK = 16  # per SM: four schedulers, a latency of four cycles
TILED_WARPS_FOR_PEAK = 4  # a thread's 64 sums are independent
MOST_IN_FLIGHT = 64  # bytes per thread: four loads of 128 bits
LEAST_SPLIT = 128  # terms; libraries do not split sums into shorter parts


class Kernel(typing.NamedTuple):
    """Properties of a kernel, from ptxas and its PTX."""
    registers: int
    stack: int
    spills: int
    slow_path: bool  # sin, cos or tan of large arguments, for which CUDA uses a stack
    load_bytes: int  # over all its load instructions
    instructions: float  # per byte loaded
    device_fences: int
    system_fences: int
    barriers: int
    passes: int = 1  # over its input
    instructions_a_product: float = 0  # per mma.m16n8k16 of its main loop; 0 if it has none


class Traffic(typing.NamedTuple):
    """Bytes that a kernel moves from and to each level, and the bytes read from both."""
    dram: float
    l2: float
    read: float

    def floor(self):
        return max(self.dram / DRAM, (self.dram + self.l2) / L2)

    def latency(self):
        return DRAM_LATENCY if self.dram > self.l2 else L2_LATENCY


def floor(traffic, flops, dtype):
    return max(traffic.floor(), flops / PEAK[dtype])


def blocks_on_an_sm(kernel, threads, shared):
    """Limited by warps, registers (allocated in units of 256) and shared memory (1 KiB per block is reserved)."""
    warps = math.ceil(threads / 32)
    registers = 65536 // (math.ceil(kernel.registers * 32 / 256) * 256) // warps
    return min(32, 64 // warps, registers, (228 << 10) // (shared + 1024))


def own_kernel(kernel, blocks, threads, shared, traffic, flops, is_tiled=False):
    """One of giro's kernels. By Little's law it reads its bytes in flight once per latency. FLOPs on tensor cores
    include those of padding."""
    resident = min(blocks, SMS * blocks_on_an_sm(kernel, threads, shared))
    sms = min(blocks, SMS)
    in_flight = resident * threads * max(1, min(MOST_IN_FLIGHT, kernel.load_bytes, traffic.read / (blocks * threads)))
    again = (kernel.passes - 1) * traffic.read  # later passes hit L2
    moving = max(traffic.floor() + again / L2,
                 traffic.read / in_flight * (traffic.latency() + (kernel.passes - 1) * L2_LATENCY),
                 (traffic.dram + traffic.l2 + again) / (sms * SM_L2))
    if kernel.instructions_a_product:
        issued = 32 * kernel.instructions_a_product * flops / PRODUCT
        computing = max(flops / (PEAK["bf16"] * sms / SMS), issued / (sms * SM_ISSUES))
    elif is_tiled:
        computing = flops / (PEAK["f32"] * TILED_EFFICIENCY * sms / SMS)
    else:
        computing = max(flops, (traffic.read + again) * kernel.instructions) / (sms * SM_ISSUES)
    computing /= min(1, resident / sms * threads / 32 / (TILED_WARPS_FOR_PEAK if is_tiled else WARPS_FOR_PEAK))
    waiting = (kernel.device_fences * DEVICE_FENCE + kernel.system_fences * SYSTEM_FENCE + kernel.barriers * BARRIER)
    return GAP + START + max(moving, computing) + waiting


def library_product(rows, columns, terms, dtype, traffic, is_convolution=False):
    """cuBLASLt or cuDNN, with the fastest tile and number of splits."""
    rows, columns, terms = max(1, rows), max(1, columns), max(1, terms)
    bytes_each = 4 if dtype in ("f32", "tf32") else 2

    def taking(tile, splits):
        sums = math.ceil(terms / splits / 32) * 32
        tiles = min(math.ceil(rows / a) * math.ceil(columns / b) for a, b in (tile, tile[::-1]))
        blocks = tiles * splits
        waves = math.ceil(blocks / SMS)
        speed = PEAK[dtype] / SMS * TILE_EFFICIENCY[tile] * (CONVOLUTION_EFFICIENCY if is_convolution else 1)
        loads = sum(tile) * sums * bytes_each  # per block
        joined = GAP + START + 8 * rows * columns * splits / L2 if splits > 1 else 0
        return joined + max(waves * 2 * math.prod(tile) * sums / speed, waves * loads / SM_L2, blocks * loads / L2)

    splits = {1 << i for i in range(8) if terms >> i >= LEAST_SPLIT} | {1}
    return GAP + LIBRARY_START + max(traffic.floor(), min(taking(t, s) for t in TILE_EFFICIENCY for s in splits))


def longest_path(nodes, times):
    """The time and the nodes of the longest path. Each node lists its earlier dependencies in "after"."""
    ends, before = [], []
    for node, time in zip(nodes, times):
        last = max(node["after"], key=lambda i: ends[i], default=None)
        before.append(last)
        ends.append(time + (ends[last] if last is not None else 0))
    path, at = [], max(range(len(ends)), key=ends.__getitem__, default=None)
    total = ends[at] if at is not None else 0
    while at is not None:
        path.append(at)
        at = before[at]
    return total, path[::-1]


def traffic_of(ops):
    """For each op of a repeated step, its traffic from and to DRAM and L2. A read hits L2 if less than L2 holds was
    moved since the value was last used; a write stays in L2 if less is moved until it is used next."""
    moved = [op["bytes"] for op in ops]

    def meets(op, tensor):
        begin, end = tensor["at"], tensor["at"] + tensor["bytes"]
        return any(t["at"] < end and begin < t["at"] + t["bytes"] for t in op["reads"] + op["writes"])

    def distance(i, tensor, step):
        count = len(ops)
        j = next(k for k in range(1, count + 1) if meets(ops[(i + step * k) % count], tensor))
        return sum(moved[(i + step * k) % count] for k in range(1, j)) + tensor["bytes"]

    result = []
    for i, op in enumerate(ops):
        sums = {"dram": 0.0, "l2": 0.0, "read": 0.0}
        for kind, step in (("reads", -1), ("writes", 1)):
            for tensor in op[kind]:
                size = min(tensor["bytes"], op["bytes"])  # some are read only in part
                sums["l2" if distance(i, tensor, step) < L2_BYTES else "dram"] += size
                sums["read"] += size if kind == "reads" else 0
        share = op["bytes"] / (sums["dram"] + sums["l2"] or 1)
        result.append(Traffic(*(share * each for each in sums.values())))
    return result
