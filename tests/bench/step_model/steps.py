"""Records steps on the emulated GPU, and adds up the costs of their kernels."""

import collections
import json
import math
import os
import re
import subprocess

import h200
from kernels import complaint

KIND = re.compile(r"(?:_(?:[0-9a-f]{16}|parts|\d+))+$")  # the suffix that distinguishes generated kernels of one kind


def record(build, model, batch, dtype, declined, silent=False):
    environment = os.environ | {"LD_PRELOAD": f"{build}/tests/cuda_on_cpu/libcuda_on_cpu.so",
                                "GIRO_CUDA_ON_CPU_DECLINE": str(int(declined))}
    done = subprocess.run([f"{build}/tests/record_step", model, str(batch), dtype, *(["silent"] if silent else [])],
                          env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{model} at batch {batch} in {dtype} was not recorded: {done.stderr.strip()}")
    return json.loads(done.stdout)


def short(name):
    """A kernel's short name: the last identifier of a mangled name, or a generated kernel's name without hashes."""
    if not name.startswith("_Z"):
        return KIND.sub("", name)
    at, parts = 3 if name.startswith("_ZN") else 2, []
    while (length := re.match(r"\d+", name[at:])) is not None:
        at += length.end() + int(length[0])
        parts.append(name[at - int(length[0]):at])
    return parts[-1]


def product_of(op, name, flops):
    """Rows, columns and terms of the product that a library call computes."""
    shape = op["writes"][0]["shape"]
    rows = shape[0] if name == "cuDNN's convolution backward filter" else math.prod(shape[:-1])
    columns = math.prod(shape) // max(1, rows)
    return rows, columns, round(flops / (2 * rows * columns))


def dtype_of(op, dtype):
    """The precision an op computes in. f32 ops in a bf16 step use plain f32."""
    of_reads = op["reads"][0]["dtype"] if op["reads"] else "f32"
    if of_reads in ("bf16", "f16"):
        return of_reads
    return "tf32" if dtype == "tf32" else "f32"


def threads_of(node):
    return node.get("blocks", 1) * node.get("threads", 1)


def padded(op, flops):
    """The FLOPs of a convolution of few channels, whose products have 16 terms or, with the bias, columns: the elements
    of a filter."""
    arrays = [tensor for tensor in op["reads"] + op["writes"] if len(tensor["shape"]) == 4]
    terms = math.prod(min(arrays, key=lambda tensor: tensor["bytes"])["shape"][1:])
    return flops * (terms // 16 + 1) * 16 / terms


def is_tiled(node):
    return "tiled_product_kernel" in node["name"]


def part_of(node, beside, op, traffic):
    """This node's part of the op's traffic and FLOPs."""
    products = [other for other in beside if "blocks" not in other] or [other for other in beside if is_tiled(other)]
    if node in products:
        share = threads_of(node) / sum(map(threads_of, products))
        return h200.Traffic(*(share * each for each in traffic)), share * op["flops"]
    if not products:  # the largest kernel does the work, others combine its parts
        return (traffic, op["flops"]) if node is max(beside, key=threads_of) else (h200.Traffic(0, 0, 0), 0)
    # A helper of a product: it sums, converts or pads the op's input or output.
    sums = "sum" in node["name"]
    of = op["writes"] if node["number"] > products[0]["number"] and not sums else op["reads"]
    return h200.Traffic(0, (1 if sums else 2) * of[0]["bytes"], of[0]["bytes"]), 0


def cost(step, kernels, dtype, is_cold=False):
    """The nodes of a step with their figures and times, and the sum along the longest path."""
    ops, nodes = step["ops"], step["nodes"]
    traffics = h200.traffic_of(ops)
    if is_cold:
        traffics = [h200.Traffic(each.dram + each.l2, 0, each.read) for each in traffics]
    rows = []
    for node in nodes:
        op = ops[node["op"]]
        beside = [other for other in nodes if other["op"] == node["op"]]
        traffic, flops = part_of(node, beside, op, traffics[node["op"]])
        is_library = "blocks" not in node
        on_tensor_cores = not is_library and kernels[node["name"]].instructions_a_product > 0
        computes_in = dtype_of(op, dtype) if is_library or on_tensor_cores else "f32"
        row = {"kernel": short(node["name"]), "op": op["op"], "after": node["after"],
               "bytes": round(traffic.dram + traffic.l2), "dram": round(traffic.dram), "flops": round(flops),
               "floor": h200.floor(traffic, flops, computes_in)}
        if is_library:
            row["time"] = h200.library_product(*product_of(op, node["name"], flops), computes_in, traffic,
                                               node["name"].startswith("cuDNN"))
        else:
            kernel = kernels[node["name"]]
            row |= {name: node[name] for name in ("blocks", "threads", "shared")} | kernel._asdict()
            row["complaint"] = complaint(row["kernel"], kernel)
            row["time"] = h200.own_kernel(kernel, node["blocks"], node["threads"], node["shared"], traffic,
                                          padded(op, flops) if on_tensor_cores else flops, is_tiled(node))
        rows.append(row)
    total, path = h200.longest_path(nodes, [row["time"] for row in rows])
    for i in path:
        rows[i]["on_path"] = True
    return {"floor": sum(rows[i]["floor"] for i in path), "time": total, "path": len(path), "kernels": rows}


def model_case(build, measure, model, batch, dtype, declined):
    is_step = model != "cross_entropy"
    steps = [record(build, model, batch, dtype, declined, silent) for silent in ([False, True] if is_step else [False])]
    names = {node["name"] for step in steps for node in step["nodes"] if "blocks" in node}
    kernels = measure(names)
    costs = [cost(step, kernels, dtype, not is_step) for step in steps]
    logging = {"logging": costs[0]["time"] - costs[1]["time"]} if is_step else {}
    return {"model": model, "batch": batch, "dtype": dtype, "declined": declined} | logging | costs[0]
