#!/usr/bin/env bash
# tests/fuzz/run.sh [SECONDS [TARGET...]]: runs libFuzzer, with AddressSanitizer and UndefinedBehaviorSanitizer, on each
# parser of files for so many seconds, 60 by default. A file that crashes a parser, takes it longer than a second or
# makes it take more than 64 MiB at once is kept in build-fuzz/, and the script fails. Needs clang-16 and
# libclang-rt-16-dev.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
seconds=${1:-60}
shift $(($# > 0 ? 1 : 0))
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(safetensors safetensors_header idx gz)

"$root/cmake/build.sh" build-fuzz fuzz -DCMAKE_CXX_COMPILER=clang++-16 -DCMAKE_C_COMPILER=clang-16 \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGIRO_CUDA=OFF -DGIRO_FUZZ=ON

seed() {
  case $1 in
    safetensors)
      local header='{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}'
      printf "\\x$(printf %x ${#header})"'\0\0\0\0\0\0\0%s123456789' "$header"
      ;;
    safetensors_header) printf '{"__metadata__":{"k":"v"},"a":{"dtype":"F64","shape":[2,2],"data_offsets":[0,32]}}' ;;
    idx) printf '\0\0\x08\x02\0\0\0\x02\0\0\0\x03abcdef' ;;
    gz) printf '\x08\x0a\0\0\x08\x02\0\0\0\x02\0\0\0\x03abcdef' ;;
  esac
}

status=0
for target in "${targets[@]}"; do
  corpus=$root/build-fuzz/corpus/$target
  mkdir -p "$corpus"
  seed "$target" >"$corpus/seed"
  options=(-max_total_time="$seconds" -timeout=1 -malloc_limit_mb=64 -max_len=4096 -use_value_profile=1
    -artifact_prefix="$root/build-fuzz/$target-")
  case $target in safetensors*) options+=(-dict="$root/tests/fuzz/safetensors.dict") ;; esac
  log=$root/build-fuzz/$target.log
  if "$root/build-fuzz/tests/fuzz/fuzz_$target" "${options[@]}" "$corpus" >"$log" 2>&1; then
    echo "giro: $target: $(tail -n 1 "$log"), $(grep -o 'cov: [0-9]*' "$log" | tail -n 1)"
  else
    status=1
    tail -n 40 "$log" >&2
    echo "giro: $target failed; all of its output is in $log" >&2
  fi
done
exit $status
