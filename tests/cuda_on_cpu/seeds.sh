#!/usr/bin/env bash
# tests/cuda_on_cpu/seeds.sh [FIRST LAST]: runs every test on the emulated GPU with each seed from FIRST to LAST, by
# default 0 to 9, which draws the order of threads, blocks, streams and graph nodes. Uses build/ as it is.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
failed=()
for seed in $(seq "${1:-0}" "${2:-9}"); do
  echo "seed $seed"
  GIRO_CUDA_ON_CPU_SEED=$seed GIRO_SIMT_SEED=$seed ctest --test-dir "$root/build" --label-regex cuda_on_cpu \
    --output-on-failure --parallel "$(nproc)" --progress | tail -n 12 || failed+=("$seed")
done
if [ ${#failed[@]} -ne 0 ]; then
  echo "tests failed with seeds ${failed[*]}" >&2
  exit 1
fi
