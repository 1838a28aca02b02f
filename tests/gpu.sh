#!/usr/bin/env bash
# The whole proof on a machine with a GPU, which need not have Debian's packages installed:
#   tests/gpu.sh fetch                               with apt and a network: puts those packages into .deps/
#   tests/gpu.sh [build] [test] [measure] [train] [compare] [sanitize]   with a GPU, in one go or stage by stage; all by
#                                                    default, and each takes at most ten minutes, but for compare
# It needs nvcc, a C++ compiler, CMake and cuDNN (in the toolkit, the system, or Python's nvidia packages). What a stage
# finds it writes to files named by date and device in tests/bench/results/: `measure` what nodes, launches and branches
# of graphs cost (tests/bench/graph_bench) and the times of a step's ops (mnist --program); `train` steps per second and
# accuracies; `compare` what tests/bench/train_step says of giro beside PyTorch and JAX, whichever python3 has. It is
# compare-linear-1, compare-linear-100, compare-linear-0 and the same for cnn, a stage each: the loss of each step logged,
# of each hundredth, or none, at batch 32, 128, 1024 and 8192. In f32, or with -tf32, -bf16 or -f16 after it in that.
#   GIRO_DEPS      folder of .deb files or of what they hold, unpacked; default .deps/. Not needed where it is installed.
#   GIRO_RESULTS   folder for the results; default tests/bench/results/
#   GIRO_COMPARE   options of tests/bench/train_step; default --batches 32 128 1024 8192 --rounds 3 --seconds 0.7
#   GIRO_COMMIT    the commit to name where there is no git; default: git's
#   GIRO_SANITIZE_SECONDS   for each program under compute-sanitizer; default 150
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
build=$root/build-cuda
status=0

fail() {
  echo "gpu.sh: $1" >&2
  status=1
}

fetch() {
  mkdir -p .deps
  (cd .deps && apt-get download libdnnl-dev libdnnl2 ocl-icd-libopencl1 libfmt-dev libfmt9 nlohmann-json3-dev \
    libcli11-dev libgtest-dev zlib1g-dev zlib1g libxxhash-dev libisal-dev libisal2 libpng-dev \
    libpng16-16 dataset-fashion-mnist libbenchmark-dev libbenchmark1debian \
    libopenmpi-dev libopenmpi3 openmpi-bin openmpi-common libpmix2 libhwloc15 libevent-core-2.1-7 \
    libevent-pthreads-2.1-7 libltdl7)
}

use_packages() {
  local packages=${GIRO_DEPS:-$root/.deps} deb
  [ -d "$packages" ] || return 0
  if compgen -G "$packages/*.deb" >/dev/null; then
    mkdir -p "$build/packages"
    for deb in "$packages"/*.deb; do dpkg -x "$deb" "$build/packages"; done
    packages=$build/packages
  fi
  local libraries=$packages/usr/lib/x86_64-linux-gnu:$packages/lib/x86_64-linux-gnu
  if [ -e "$packages/usr/bin/mpirun.openmpi" ]; then
    # It is told where it has come to lie, and has the names that installing it would have given it.
    export OPAL_PREFIX=$packages/usr
    libraries=$libraries:$packages/usr/lib/x86_64-linux-gnu/openmpi/lib:$packages/usr/lib/x86_64-linux-gnu/pmix2/lib
    mkdir -p "$build/bin"
    local name
    for name in mpirun mpiexec mpicc mpicxx; do ln -sf "$packages/usr/bin/$name.openmpi" "$build/bin/$name"; done
    export PATH=$build/bin:$packages/usr/bin:$PATH
  fi
  export CMAKE_PREFIX_PATH=$packages/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # The linker, too, has to find what a shared library of those packages needs.
  export LDFLAGS="-Wl,-rpath-link,${libraries//:/,-rpath-link,} ${LDFLAGS:-}"
  [ -d "$data" ] || data=$packages/usr/share/datasets/fashion-mnist
}

build() {
  # The benchmarks need a library that may be missing; `measure` says so then.
  local benchmarks=OFF
  ! compgen -G "/usr/include/benchmark/benchmark.h" >/dev/null || benchmarks=ON
  ! compgen -G "${CMAKE_PREFIX_PATH%%:*}/include/benchmark/benchmark.h" >/dev/null || benchmarks=ON
  cmake/build.sh build-cuda all --preset cuda -DGIRO_BENCHMARKS=$benchmarks
  grep 'giro:' "$build/build.log" || true
}

run_tests() {
  ctest --test-dir "$build" --output-on-failure -L gpu --parallel 8 --no-tests=error | tee "$build/gpu_tests.log" ||
    fail "GPU tests failed"
  # What is made to be declined by the libraries is so on the emulation alone.
  ! grep '(Skipped)' "$build/gpu_tests.log" | grep -qv Declined || fail "GPU tests skipped themselves: there is no usable GPU"
}

sanitize_with() {
  local tool=$1 filter=$2 test=$3
  "$test" --gtest_list_tests --gtest_filter="$filter" | grep -q '^  ' || return 0
  echo "== compute-sanitizer $tool, $(basename "$test")"
  timeout "${GIRO_SANITIZE_SECONDS:-150}" "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 \
    "$test" --gtest_filter="$filter" --gtest_brief=1 || fail "$tool of $(basename "$test") failed"
}

sanitize() {
  local sanitizer test
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  [ -x "$sanitizer" ] || { fail "no compute-sanitizer: memcheck and racecheck did not run"; return; }
  # The races of the libraries are not ours: without the ops that call them.
  sanitize_with racecheck '*cuda*:-*Dense*:*Conv2d*:*Pool*' "$build/tests/kernels_test"
  # Temporaries of their own, so that memcheck sees where each ends.
  for test in "$build"/tests/*_test; do
    [ "$(basename "$test")" != cuda_behaviour_test ] || continue  # makes mistakes on purpose
    GIRO_ARENA=0 sanitize_with memcheck '*cuda*:*Cuda*:*CUDA*' "$test"
  done
}

gpu_name() {
  nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1
}

commit_name() {
  echo "${GIRO_COMMIT:-$(git describe --always --dirty 2>/dev/null || echo unknown)}"
}

# Where a stage writes: the folder, then date and device.
results_file() {
  local folder=${GIRO_RESULTS:-$root/tests/bench/results}
  mkdir -p "$folder"
  echo "$folder/$(date -u +%F)-$(gpu_name | tr ' A-Z/' '-a-z-')"
}

train() {
  local gpu driver toolkit results run model batch how launcher line
  gpu=$(gpu_name)
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
  toolkit=$("$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)" --version | sed -n 's/^Cuda compilation tools, //p')
  rm -rf "$build/logdir"
  results=$(results_file).md
  {
    echo "# MNIST sample on $gpu"
    echo
    echo "Date: $(date -u +%F). Driver $driver, CUDA $toolkit."
    echo "Commit: $(commit_name). Fashion-MNIST, 5,000 steps, adamw 1e-3, seed 0, f32, logs of every step."
    echo
    echo "Through NCCL: one rank under mpirun, whose gradients are reduced all the same."
    echo
    echo "| model | batch | steps/s | us/step | test accuracy | test loss |"
    echo "|---|---|---|---|---|---|"
  } >"$results"
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  for run in {linear,cnn}-{32,128,1024}-alone {linear,cnn}-{32,1024}-nccl; do
    IFS=- read -r model batch how <<<"$run"
    launcher=()
    if [ "$how" = nccl ]; then
      command -v mpirun >/dev/null || { fail "no mpirun: nothing of several processes was run"; break; }
      launcher=(mpirun -n 1)
    fi
    line=$("${launcher[@]}" "$build/samples/mnist" --model "$model" --device cuda --batch "$batch" --steps 5000 \
      --partition "$([ "$how" = nccl ] && echo data || echo single)" --data "$data" --logdir "$build/logdir/$run" |
      tee "$build/train.log" | grep '^result: ') || fail "$run failed"
    python3 - "$model" "$batch" "$how" "$line" >>"$results" <<'PYTHON' || fail "$run: no result"
import json, sys

model, batch, how, line = sys.argv[1:]
result = json.loads(line.removeprefix("result: "))
floor = {"linear": 0.825, "cnn": 0.885}[model]
speed, accuracy = result["steps_per_second"], result["test_accuracy"]
print(f"| {model}{' through NCCL' if how == 'nccl' else ''} | {batch} | {speed:.0f} | {1e6 / speed:.1f} | {accuracy:.4f} | {result['test_loss']:.4f} |")
if not result["device"].startswith("cuda"):
    sys.exit(f"trained on {result['device']}")
if batch == "32" and accuracy < floor:
    sys.exit(f"{model}: test accuracy {accuracy} is below {floor}")
PYTHON
  done
  cat "$results"
  echo "gpu.sh: written to $results"
}

measure() {
  local bench=$build/tests/bench/graph_bench results model batch
  results=$(results_file)-measure
  [ -x "$bench" ] || { fail "no graph_bench: libbenchmark-dev was missing in the stage build"; return; }
  echo "Commit: $(commit_name)" >"$results.txt"
  timeout 300 "$bench" --benchmark_min_time=0.2 --benchmark_out="$results.json" --benchmark_out_format=json |
    tee -a "$results.txt" || fail "graph_bench failed"
  ! grep -q 'ERROR OCCURRED: .no GPU' "$results.txt" || fail "graph_bench found no GPU"
  for model in linear cnn; do
    for batch in 32 128 1024 8192; do
      {
        echo
        echo "$model, batch $batch"
        timeout 60 "$build/samples/mnist" --program --model "$model" --batch "$batch" --device cuda --data "$data"
      } | tee -a "$results.txt" || fail "mnist --program of $model, batch $batch failed"
    done
  done
  echo "gpu.sh: written to $results.txt and .json"
}

# One model, interval of logging and dtype: about 20 s for each batch and peer, of which most is compiling.
compare() {
  local model=$1 log_every=$2 dtype=${3:-f32} results options
  results=$(results_file)-train-step-$model-$log_every-$dtype
  read -ra options <<<"${GIRO_COMPARE:---batches 32 128 1024 8192 --rounds 3 --seconds 0.7}"
  echo "Commit: $(commit_name)" >"$results.txt"
  python3 -u tests/bench/train_step --device cuda --sample "$build/samples/mnist" --data "$data" --json "$results.json" \
    --models "$model" --log-every "$log_every" --dtypes "$dtype" --limit 40 --minutes 9 "${options[@]}" | tee -a "$results.txt" ||
    fail "the comparison with the peers failed, or loss curves disagree"
  echo "gpu.sh: written to $results.txt and .json"
}

data=/usr/share/datasets/fashion-mnist
[ "${1:-}" != fetch ] || { fetch; exit; }
[ $# -gt 0 ] || set -- build test measure train compare sanitize
use_packages
for stage in "$@"; do
  case $stage in
    build) build ;;
    test) run_tests ;;
    train) train ;;
    measure) measure ;;
    compare)
      for dtype in f32 tf32 bf16 f16; do
        for log_every in 1 100 0; do for model in linear cnn; do compare "$model" "$log_every" "$dtype"; done; done
      done
      ;;
    compare-*)
      IFS=- read -r model log_every dtype <<<"${stage#compare-}"
      [[ $model =~ ^(linear|cnn)$ && $log_every =~ ^(1|100|0)$ && ${dtype:-f32} =~ ^(f32|tf32|bf16|f16)$ ]] ||
        { echo "gpu.sh: no stage '$stage': compare-{linear,cnn}-{1,100,0}[-{f32,tf32,bf16,f16}]" >&2; exit 2; }
      compare "$model" "$log_every" "${dtype:-f32}"
      ;;
    sanitize) sanitize ;;
    *) echo "gpu.sh: no stage '$stage': fetch, build, test, measure, train, compare, compare-MODEL-INTERVAL[-DTYPE] or sanitize" >&2; exit 2 ;;
  esac
done
exit "$status"
