#!/usr/bin/env python3
"""Twelve realistic bugs, each planted alone: the suite must notice each, also after tests were made cheaper.

usage: planted_bugs.py check           each bug's text stands once in its file
       planted_bugs.py run TREE BUILD [NUMBER...]
                                       in TREE, a copy of the sources that was built in BUILD: plants each bug, builds,
                                       and runs the tests that are to notice it until one fails. A build
                                       with GIRO_TEST_SHARES leaves out half of the GPU's kernels: try both

A bug is (file, what stands there, what is planted, the ctests that are to notice it).
"""

import pathlib
import subprocess
import sys

BUGS = [
    ("kernels/cpu/fold.cpp", "return x != x ? kNan : kIsMin ? ~key : key;", "return kIsMin ? ~key : key;",
     "kernels_(nn_)?test"),
    ("kernels/cuda/softmax_cross_entropy.cu", "  __syncwarp();  // all lanes have read the label's logit\n", "",
     "cuda_on_cpu.*kernels_test"),
    ("kernels/nn/losses.cpp", "sum(nn::where(weights == 0, 0, weights * values))", "sum(weights * values)",
     "kernels_nn_test"),
    ("kernels/rules/write_in_place.cpp", "&& to && !ops.replaces_reads(*to, k)) return", "&& to) return", "kernels_test"),
    ("runtime/program/memory_plan.cpp", "if (other->last < block->first ||", "if (other->last <= block->first ||",
     "runtime_test"),
    ("runtime/program/homes.cpp", " || from.last != i || (run_aside", " || (run_aside", "kernels_expr_test"),
    ("runtime/files/file_system.cpp",
     "void sync_directory(const std::string& path) override { File(path, O_RDONLY | O_DIRECTORY, \"sync\").sync(); }",
     "void sync_directory(const std::string&) override {}", "runtime_files_test|kill_at_every_call"),
    ("runtime/files/kept_checkpoints.cpp", "return mode == \"max\" ? *a.best > *b.best : *a.best < *b.best;",
     "return mode == \"max\" ? *a.best >= *b.best : *a.best <= *b.best;", "runtime_files_test|callbacks_test"),
    ("loop/time/schedule.cpp", "next.steps = was_due ? multiple_ :", "next.steps = was_due ? multiple_ + 1 :",
     "loop_(time_|run_|step_)?test"),
    ("loop/run/run_engine.cpp", "  stop_ = Deadline::at(stop, elapsed_);\n  results.history",
     "  results.history", "loop_(run_)?test|callbacks_(jaxloop_)?test"),
    ("kernels/optim/update_plan.cpp", "  state.declare(\"accumulate\", std::to_string(optimizer_->accumulated_steps));\n", "",
     "callbacks_test|kernels_(nn|optim)_test|loop_test"),
    ("distributed/gradient_buckets.cpp",
     "ranks_.all_reduce(Tensor(begin, flat_.dtype(), {begins_[i] - begins_[first]}, flat_.device()), Reduction::mean,",
     "ranks_.all_reduce(Tensor(begin, flat_.dtype(), {begins_[i] - begins_[first]}, flat_.device()), Reduction::sum,",
     "distributed_ranks"),
]


def check(root):
    wrong = []
    for number, (name, old, _, _) in enumerate(BUGS):
        count = (root / name).read_text(encoding="utf-8").count(old)
        if count != 1:
            wrong.append(f"bug {number}: {name}: found its text {count} times, expected once: {old.strip()}")
    print("\n".join(wrong) or f"{len(BUGS)} bugs can be planted")
    return bool(wrong)


def is_noticed(build, tests):
    if subprocess.run(["cmake", "--build", build], capture_output=True, check=False).returncode != 0:
        raise SystemExit(f"{build}: a planted bug does not compile")
    command = ["ctest", "--test-dir", build, "--tests-regex", tests, "--stop-on-failure", "--output-on-failure"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No tests were found" in result.stdout + result.stderr:
        raise SystemExit(f"{build}: no test is called {tests}")
    return result.returncode != 0


def run(tree, build, *numbers):
    missed = []
    for number in [int(number) for number in numbers] or range(len(BUGS)):
        name, old, new, tests = BUGS[number]
        file = pathlib.Path(tree) / name
        text = file.read_text(encoding="utf-8")
        try:
            file.write_text(text.replace(old, new), encoding="utf-8")
            noticed = is_noticed(build, tests)
        finally:
            file.write_text(text, encoding="utf-8")
        print(f"bug {number}, {name}: {'noticed' if noticed else 'NOT NOTICED'}", flush=True)
        if not noticed:
            missed.append(number)
    return bool(missed)


if __name__ == "__main__":
    what, *rest = sys.argv[1:] or [""]
    if what == "check" and not rest:
        sys.exit(check(pathlib.Path(__file__).resolve().parents[1]))
    sys.exit(run(*rest) if what == "run" and len(rest) > 1 else __doc__)
