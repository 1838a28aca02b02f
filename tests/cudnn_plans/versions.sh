#!/usr/bin/env bash
# tests/cudnn_plans/versions.sh BUILD [VERSION...]: runs the tests of cuDNN's plans in BUILD, on a machine without a
# driver, with other versions of cuDNN than it was built with: by default the oldest and the newest for CUDA 13 that
# PyPI has. It downloads each (0.4 to 0.9 GB), so CI does not run it.
set -euo pipefail

build=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- 9.12.0.46 newest
status=0
for version; do
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  package=nvidia-cudnn-cu13
  [ "$version" = newest ] || package+="==$version"
  python3 -m pip install --quiet --no-deps --no-compile --target "$folder" "$package"
  library=$folder/nvidia/cudnn/lib
  [ -d "$library" ] || library=$folder/nvidia/cu13/lib
  echo "giro: the plans of cuDNN $version: $(basename "$folder"/nvidia_cudnn*.dist-info .dist-info)"
  for part in 'stubs:-*Attention*' 'driver:*Attention*'; do  # as in tests/CMakeLists.txt
    LD_LIBRARY_PATH=$library:$build/tests/${part%%:*} "$build/tests/cudnn_plans" --gtest_filter="${part#*:}" || status=1
  done
  rm -rf "$folder"
done
exit $status
