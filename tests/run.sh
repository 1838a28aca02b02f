#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs every test this machine can run: first under AddressSanitizer
# and UndefinedBehaviorSanitizer, then, where the CUDA backend can be built, its own on the CPU (tests/cuda_on_cpu), then
# the release build. Ends in ctest's summary.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/cmake/install_dependencies.sh" libgtest-dev python3
"$root/cmake/install_dependencies.sh" dataset-fashion-mnist || {
  [ $? -eq 3 ] || exit 1
  echo "giro: skipped: tests that train on Fashion-MNIST"
}

test_tree() {
  local folder=$root/$1
  shift
  ctest --test-dir "$folder" --output-on-failure --parallel "$(nproc)" "$@"
}

"$root/cmake/build.sh" build all --preset release -DGIRO_TESTS=ON

"$root/cmake/build.sh" build-asan all --preset asan -DGIRO_TESTS=ON
sanitized=0
# It has no CUDA backend. Each temporary is a block of its own, which AddressSanitizer sees the end of.
GIRO_ARENA=0 test_tree build-asan --label-exclude gpu || sanitized=$?

emulated=0
no_cuda=$(sed -n 's/^-- giro: CUDA backend off: //p' "$root/build/build.log")
if [ -n "$no_cuda" ]; then
  echo "giro: skipped: the CUDA backend's tests on the CPU: $no_cuda"
else
  "$root/cmake/build.sh" build-cuda-on-cpu all --preset cuda-on-cpu -DGIRO_TESTS=ON
  log=$root/build-cuda-on-cpu/gpu_tests.log
  test_tree build-cuda-on-cpu --label-regex gpu --no-tests=error | tee "$log" || emulated=$?
  # None skips itself, but for want of Fashion-MNIST.
  if grep '(Skipped)' "$log" | grep -qv mnist; then
    echo "giro: gpu tests skipped themselves on the emulation" >&2
    emulated=1
  fi
fi

test_tree build
if [ "$emulated" -ne 0 ]; then
  echo "giro: tests of the CUDA backend failed on the CPU; their summary stands above the release build's" >&2
  exit "$emulated"
fi
if [ "$sanitized" -ne 0 ]; then
  echo "giro: tests failed under the sanitizers; their summary stands above the release build's" >&2
  exit "$sanitized"
fi
