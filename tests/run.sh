#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs what this machine can run: first under AddressSanitizer and
# UndefinedBehaviorSanitizer, then in the release build; tests/README.md says which tests where. If the CUDA backend can
# be built, its tests run there on an emulated GPU (tests/cuda_on_cpu). In between, every file parser is fuzzed for
# GIRO_FUZZ_SECONDS (default 5). Reports how long each part took, and ends with ctest's summary.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# phase NAME COMMAND...
phase() {
  local TIMEFORMAT="giro: $1: %0R s, %0U + %0S s of CPU"
  shift
  time "$@"
}

test_tree() {
  local folder=$root/$1
  shift
  nice -n "${niceness:-0}" ctest --test-dir "$folder" --output-on-failure --parallel "$(nproc)" "$@"
}

required=(libgtest-dev python3 ninja-build pkg-config file)
# What is skipped if the distribution lacks these packages.
optional=("tests that train on Fashion-MNIST: dataset-fashion-mnist"
  "the tests that Python and giro read each other's files: python3-venv"
  "the same with PyTorch, and the comparison of GPT-2 with it: python3-torch"
  "communication through MPI, and its tests of several processes: libopenmpi-dev openmpi-bin"
  "the test that kills a process at every call: strace"
  "the check that clang 16 compiles the headers and samples without a warning: clang-16"
  "the check of the layout by clang-format 16: clang-format-16"
  "the check that the benchmarks compile: libbenchmark-dev"
  "linking for the sanitizers in a quarter of the time: lld-16"
  "compiling kernels for the emulated GPU in a twentieth of the time: tcc"
  "the fuzzing of the parsers: clang-16 libclang-rt-16-dev")
libomp='/usr/lib/llvm-*/lib/libomp.so'
compgen -G "$libomp" >/dev/null ||
  optional+=("the suite as clang compiles it: g++ does for the sanitizers: libomp-dev")

# All at once, since apt takes long to start. If the distribution lacks some, nothing was installed: then each line of
# the list by itself.
install=$root/cmake/install_dependencies.sh status=0
read -ra packages <<<"${optional[*]##*: }"
"$install" "${required[@]}" "${packages[@]}" || status=$?
if [ "$status" -eq 3 ]; then
  "$install" "${required[@]}"
  for entry in "${optional[@]}"; do
    read -ra packages <<<"${entry##*: }"
    "$install" "${packages[@]}" || { [ $? -eq 3 ] || exit 1; echo "giro: skipped: ${entry%: *}"; }
  done
elif [ "$status" -ne 0 ]; then
  exit 1
fi
lld=$(command -v ld.lld-16) || :
fuzz=$(compgen -G '/usr/lib/llvm-16/lib/clang/16*/lib/linux/libclang_rt.fuzzer-*.a') || :

# The tests of ops also run with another oneDNN than the distribution's: Debian 12 has 2.6.
one_dnn=$root/.cache/one_dnn
python3 "$root/tests/support/python_environment.py" "$one_dnn" onednn{,-devel}-cpu-gomp==2023.2.0 ||
  { one_dnn=; echo "giro: skipped: the tests of ops with oneDNN 3, which PyPI did not give"; }

# Unity builds compile many sources at a time and read what they include once.
tests=(-DGIRO_TESTS=ON -DGIRO_TEST_SHARES=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=40)
release=(--preset release "${tests[@]}" -DBUILD_SHARED_LIBS=ON
  -DGIRO_OTHER_ONE_DNN="$one_dnn")
gpu=no
if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  gpu=yes
else
  release+=(-DCMAKE_CUDA_ARCHITECTURES=80-virtual)  # the emulated GPU reads nothing else
fi
phase "building the release" "$root/cmake/build.sh" build all "${release[@]}"
asan=asan
if command -v clang++-16 >/dev/null && compgen -G "$libomp" >/dev/null; then
  asan=asan-clang
  [ -z "$lld" ] || tests+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld)
fi
phase "building for the sanitizers" "$root/cmake/build.sh" "build-$asan" all --preset "$asan" "${tests[@]}"

export GIRO_VERIFY=1  # each program, after each rule

sanitized=0
# Each temporary is a separate allocation, so AddressSanitizer sees where it ends. It records ten calls of the stack of
# each allocation: thirty would take it a sixth of the time.
GIRO_ARENA=0 ASAN_OPTIONS=malloc_context_size=10 phase "testing under the sanitizers" \
  test_tree "build-$asan" || sanitized=$?

fuzzed=0
if [ -n "$fuzz" ]; then
  phase "fuzzing the parsers" "$root/tests/fuzz/run.sh" "${GIRO_FUZZ_SECONDS:-5}" || fuzzed=1
fi

no_cuda=$(sed -n 's/^-- giro: CUDA backend off: //p' "$root/build/build.log")
[ -z "$no_cuda" ] || echo "giro: skipped: the CUDA backend's tests on the emulated GPU: $no_cuda"
without=mpi
if [ -z "$no_cuda" ] && [ "$gpu" = no ]; then
  echo "giro: no GPU here: the CUDA backend's tests run on the emulated one alone"
  without="gpu|mpi"
fi
# Jobs of several ranks mostly wait, so they run alongside the other tests, at a higher priority. Those with deadlines
# of seconds run first, alone.
released=0 ranked=0 log=$root/build/tests.log ranks_log=$root/build/ranks.log
ranks=
: >"$ranks_log"
if grep -q '^-- giro: MPI on' "$root/build/build.log"; then
  echo "giro: testing what several ranks have to do within seconds"
  test_tree build/tests --label-regex '^alone$' >"$ranks_log" 2>&1 || ranked=$?
  set -m  # its own process group, which the trap ends
  test_tree build/tests --label-regex '^mpi$' --label-exclude '^alone$' >>"$ranks_log" 2>&1 &
  ranks=$!
  set +m
  trap 'kill -- -"$ranks" 2>/dev/null || :' EXIT
fi
niceness=19 test_tree build --label-exclude "^($without)\$" | tee "$log" || released=$?
[ -z "$ranks" ] || wait "$ranks" || ranked=$?
trap - EXIT
python3 "$root/tests/kernels/one_dnn_versions.py" "$root/build"
kernels=$root/build/generated_kernels.tsv
[ ! "$kernels" -nt "$root/build/build.log" ] || sed -n '2,$s/^# /giro: /p' "$kernels"
if [ "$sanitized" -ne 0 ]; then
  echo "giro: tests failed under the sanitizers; their summary stands above the release build's" >&2
fi
if [ "$ranked" -ne 0 ]; then
  echo "giro: tests of several ranks failed:" >&2
  cat "$ranks_log" >&2
fi
if [ "$fuzzed" -ne 0 ]; then
  echo "giro: a parser failed when it was fuzzed:" >&2
  cat "$root/build-fuzz/failures" >&2
fi
# On the emulated GPU a test may be skipped only if Fashion-MNIST or packages from PyPI are missing.
if cat "$ranks_log" "$log" | grep 'cuda_on_cpu.*[(]Skipped[)]' | grep -qvE 'mnist|_in_jax|_in_numpy'; then
  echo "giro: tests skipped themselves on the emulated GPU" >&2
  released=1
fi
exit $((released ? released : ranked ? ranked : sanitized ? sanitized : fuzzed))
