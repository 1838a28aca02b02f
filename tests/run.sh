#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs every test this machine can run: first under AddressSanitizer
# and UndefinedBehaviorSanitizer, then the release build. Ends in ctest's summary.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/cmake/install_dependencies.sh" libgtest-dev python3 dataset-fashion-mnist

test_tree() {
  ctest --test-dir "$root/$1" --output-on-failure --parallel "$(nproc)"
}

"$root/cmake/build.sh" build-asan all --preset asan -DGIRO_TESTS=ON
sanitized=0
test_tree build-asan || sanitized=$?

"$root/cmake/build.sh" build all --preset release -DGIRO_TESTS=ON
test_tree build
if [ "$sanitized" -ne 0 ]; then
  echo "giro: tests failed under the sanitizers; their summary stands above the release build's" >&2
  exit "$sanitized"
fi
