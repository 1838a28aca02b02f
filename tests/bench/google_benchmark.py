"""Runs a case of a Google Benchmark executable."""

import json
import subprocess


def counter(bench, case, name):
    """The value of a counter in the case with exactly this name."""
    result = subprocess.run([bench, f"--benchmark_filter=^{case}$", "--benchmark_format=json"], capture_output=True,
                            text=True, check=True)
    (benchmark,) = json.loads(result.stdout)["benchmarks"]
    return benchmark[name]
