#!/usr/bin/env bash
# cmake/build_sample.sh SAMPLE: builds a sample in build/ for this machine alone, quickly. The preset that it starts from
# resets every option below, so whatever is built in the same folder later does not inherit them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The fewer units, the less is compiled twice, but each core needs some.
sources=$((200 / $(nproc)))
sources=$((sources < 8 ? 8 : sources > 100 ? 100 : sources))
# The CPU kernels have their own -O3; the rest takes a third less time to compile with -O1, and a step no more to run.
options=(-DGIRO_TESTS=OFF -DGIRO_NATIVE=ON -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG"
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE="$sources")
if compgen -G '/dev/nvidia[0-9]*' >/dev/null || [ -e /dev/dxg ]; then  # the latter is WSL's
  # Unless all of them are ones that giro and nvcc know, the device code is the release's.
  known=$(PATH=$PATH:/usr/local/cuda/bin nvcc --list-gpu-code 2>/dev/null) || known=
  gpus=() all=yes
  for gpu in $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -u); do
    [[ $gpu =~ ^[0-9]+$ && $gpu -ge 80 && $known == *sm_$gpu* ]] || all=no
    gpus+=("$gpu-real")
  done
  if [ "$all" = yes ] && [ ${#gpus[@]} -gt 0 ]; then
    options+=(-DCMAKE_CUDA_ARCHITECTURES="$(IFS=';' && echo "${gpus[*]}")")
  fi
else
  options+=(-DGIRO_CUDA=OFF)
fi
exec "$root/cmake/build.sh" build "$1" --preset release "${options[@]}"
