"""A cost model of a recorded training step on an H200, to judge changes of CUDA code without the GPU.

Records steps on the emulated GPU, analyzes their kernels with ptxas, and prints the expected times. The numbers are
computed, not measured. The exit code is 1 if a kernel spills or has a stack.
"""

import argparse
import collections
import itertools
import json
import pathlib
import sys

from kernels import Kernels
from steps import model_case

LABEL = "computed for an H200, not measured"


def title(case):
    return (f"{case['model']}, batch {case['batch']}, {case['dtype']}"
            + (", libraries declined" if case["declined"] else ""))


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(each) for each in row) + " |"


def summary(cases):
    rows = [(case["model"], case["batch"], case["dtype"], "declined" if case["declined"] else "", len(case["kernels"]),
             case["path"], f"{case['floor']:.1f}", f"{case['time']:.1f}",
             f"{case['logging']:.1f}" if "logging" in case else "") for case in cases]
    yield from table(("model", "batch", "dtype", "libraries", "nodes", "on the path", "floor us", "expected us",
                      "of it logging us"), rows)


def fences(kernel):
    """The number of device fences and of system fences."""
    if not kernel.get("device_fences") and not kernel.get("system_fences"):
        return ""
    return f"{kernel['device_fences']} + {kernel['system_fences']}"


def details(case):
    def row(kernel):
        launch = f"{kernel['blocks']} x {kernel['threads']}" if "blocks" in kernel else ""
        return ("" if kernel.get("on_path") else "(aside) ") + kernel["kernel"], kernel["op"], launch, \
            kernel.get("registers", ""), kernel.get("shared", ""), kernel.get("stack", ""), fences(kernel), \
            f"{kernel['bytes']:,}", \
            f"{kernel['flops']:,}", f"{kernel['floor']:.2f}", f"{kernel['time']:.2f}"

    yield f"\n### {title(case)}: {case['time']:.1f} us, {LABEL}\n"
    yield from table(("kernel", "op", "blocks x threads", "registers", "shared", "stack", "fences", "bytes", "FLOP",
                      "floor us", "expected us"), map(row, case["kernels"]))


def by_op(case):
    """Microseconds by op; ops of the same name are numbered."""
    times, seen, last = collections.Counter(), collections.Counter(), None
    for kernel in case["kernels"]:
        seen[kernel["op"]] += kernel["op"] != last or "blocks" not in kernel
        last = kernel["op"]
        times[f"{kernel['op']} #{seen[kernel['op']]}"] += kernel["time"]
    return times


def differences(before, after):
    """For two files: the totals of each case, and the ops with different times."""
    known = {title(case): case for case in before}
    for case in after:
        old = known.get(title(case))
        if old is None:
            continue
        yield f"{title(case)}: {old['time']:.1f} -> {case['time']:.1f} us, {case['time'] / old['time']:.2f} x"
        times, new = by_op(old), by_op(case)
        for op in sorted(times | new, key=lambda op: new[op] - times[op]):
            if abs(times[op] - new[op]) >= 0.05:
                yield f"    {op}: {times[op]:.2f} -> {new[op]:.2f}"


def parse():
    parser = argparse.ArgumentParser(prog="step_model", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[3]
    parser.add_argument("--models", nargs="+", default=["linear", "cnn"], choices=["linear", "cnn", "cross_entropy"],
                        help="cross_entropy: of batch rows and 50,257 columns, whose memory is in no cache")
    parser.add_argument("--batches", nargs="+", type=int, default=[32, 128, 1024])
    parser.add_argument("--dtypes", nargs="+", default=["f32", "tf32", "bf16"])
    parser.add_argument("--declined", action="store_true", help="cuBLASLt and cuDNN decline everything")
    parser.add_argument("--kernels", action="store_true", help="a table of the kernels of each step, too")
    parser.add_argument("--json", help="file to write")
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two such files instead")
    parser.add_argument("--build", type=pathlib.Path, default=root / "build")
    parser.add_argument("--nvrtc", default="libnvrtc.so")
    parser.add_argument("--ptxas", default="ptxas")
    return parser.parse_args()


def main():
    args = parse()
    if args.compare:
        before, after = (json.loads(pathlib.Path(path).read_text())["cases"] for path in args.compare)
        print("\n".join(differences(before, after)))
        return 0
    measure = Kernels(args.build, args.nvrtc, args.ptxas).measure
    cases = [model_case(args.build, measure, model, batch, dtype, args.declined)
             for model, batch, dtype in itertools.product(args.models, args.batches, args.dtypes)]
    print("\n".join([f"{LABEL}\n", *summary(cases)]))
    if args.kernels:
        print("\n".join(line for case in cases for line in details(case)))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"what": LABEL, "cases": cases}, indent=1) + "\n")
    complaints = {kernel["complaint"] for case in cases for kernel in case["kernels"] if kernel.get("complaint")}
    print("\n".join(sorted(complaints)), end="\n" if complaints else "", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
