"""Runs a case of a Google Benchmark executable."""

import json
import subprocess


def counter(bench, case, name):
    """The counter of that name, of the one case that is called so."""
    result = subprocess.run([bench, f"--benchmark_filter=^{case}$", "--benchmark_format=json"], capture_output=True,
                            text=True, check=True)
    (benchmark,) = json.loads(result.stdout)["benchmarks"]
    return benchmark[name]
