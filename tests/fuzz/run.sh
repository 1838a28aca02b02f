#!/usr/bin/env bash
# tests/fuzz/run.sh [SECONDS [TARGET...]]: runs libFuzzer, with AddressSanitizer and UndefinedBehaviorSanitizer, on each
# file parser for SECONDS seconds (60 by default), with as many parallel jobs as cores. A parser with two targets
# divides its time between them. A file that crashes a parser, takes longer than a second or allocates more than 64 MiB
# at once is kept in build-fuzz/, and the script fails. Needs clang-16 and libclang-rt-16-dev.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
seconds=${1:-60}
shift $(($# > 0 ? 1 : 0))
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(safetensors safetensors_header manifest lines idx gz npy csv)

mkdir -p "$root/build-fuzz"
: >"$root/build-fuzz/failures"
"$root/cmake/build.sh" build-fuzz fuzz -DCMAKE_CXX_COMPILER=clang++-16 -DCMAKE_C_COMPILER=clang-16 \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=20 \
  -DGIRO_CUDA=OFF -DGIRO_FUZZ=ON

seed() {
  case $1 in
    safetensors)
      local header='{"__metadata__":{"pieces":"{\"pieces\":[{\"path\":\"a\",\"begin\":0,\"shape\":[2]}]}"},'
      header+='"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
      printf "\\x$(printf %x ${#header})"'\0\0\0\0\0\0\0%s12345678' "$header"
      ;;
    safetensors_header) printf '{"__metadata__":{"k":"v"},"a":{"dtype":"F64","shape":[2,2],"data_offsets":[0,32]}}' ;;
    manifest)
      cat <<'END'

"version": 3,
"checkpoint": {"steps": 3, "samples": 96, "previous_samples": 64, "time": 0.5, "previous_time": 0.25, "not_finite": "",
  "monitor": "loss", "best": 0.5, "files": [{"name": "state.safetensors", "bytes": 8, "xxh3": "0123456789abcdef"},
  {"name": "memory.safetensors", "bytes": 8, "xxh3": "0123456789abcdef"},
  {"name": "state-00001-of-00002.safetensors", "bytes": 8, "xxh3": "0123456789abcdef"},
  {"name": "state-00002-of-00002.safetensors", "bytes": 8, "xxh3": "0123456789abcdef"}], "lines": [{"path": "run/history/records",
  "name": "lines_0.jsonl", "lines": 3, "bytes": 40, "xxh3": "0123456789abcdef"}]},
"memory": {"run": {"flag": true, "small": -1, "count": 7, "best": "-Infinity", "narrow": 1e-3, "name": "\u00e9",
  "date": null, "lists": [[1, -2], []], "inner": [{"flag": false, "date": 1.5}]}}}
END
      ;;
    lines)
      cat <<'END'
"columns":[{"collection":"metrics","name":"loss"},{"collection":"metrics","name":"accuracy"}],"layouts":[[0],[0,1]]
[0,1,32,1.5,1.0,32,0.25]
[1,2,64,"NaN",1.0,32,-0.0,"-Infinity"]
END
      ;;
    idx) printf '\0\0\x08\x02\0\0\0\x02\0\0\0\x03abcdef' ;;
    npy)
      local dictionary="{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }"
      printf '\x93NUMPY\1\0'"\\x$(printf %x ${#dictionary})"'\0%s12345678' "$dictionary"
      ;;
    csv) printf 'a,b\r\n1,"2"\r\n-3e4,"5"\r\n' ;;
    gz) printf '\x08\x0a\0\0\x08\x02\0\0\0\x02\0\0\0\x03abcdef' ;;
  esac
}

fuzz() {
  local target=$1 corpus=$root/build-fuzz/corpus/$1 log=$root/build-fuzz/$1.log
  mkdir -p "$corpus"
  seed "$target" >"$corpus/seed"
  local share=$seconds
  case $target in safetensors* | idx | gz) share=$(((seconds + 1) / 2)) ;; esac
  local options=(-max_total_time="$share" -timeout=1 -malloc_limit_mb=64 -max_len=4096 -use_value_profile=1
    -artifact_prefix="$root/build-fuzz/$target-")
  case $target in safetensors*) options+=(-dict="$root/tests/fuzz/safetensors.dict") ;; esac
  if "$root/build-fuzz/tests/fuzz/fuzz_$target" "${options[@]}" "$corpus" >"$log" 2>&1; then
    echo "giro: $target: $(tail -n 1 "$log"), $(grep -o 'cov: [0-9]*' "$log" | tail -n 1)"
  else
    {
      grep -a -m 1 -A 12 -e 'ERROR: ' -e 'terminate called' -e 'runtime error' "$log" || tail -n 20 "$log"
      tail -n 2 "$log"  # the file that caused the failure
      echo "giro: $target failed; all of its output is in $log"
    } | tee -a "$root/build-fuzz/failures" >&2
    return 1
  fi
}

status=0 running=0
for target in "${targets[@]}"; do
  if [ "$running" -ge "$(nproc)" ]; then
    wait -n || status=1
    running=$((running - 1))
  fi
  fuzz "$target" &
  running=$((running + 1))
done
for (( ; running > 0; running--)); do
  wait -n || status=1
done
exit $status
