#!/usr/bin/env bash
# Tests and measurements for a machine with a GPU. It may be bare and lent for ten minutes at a time: it has no network,
# no Debian packages, and nothing of an earlier call. So each stage builds what it needs and has its own time limit.
#   tests/gpu.sh fetch       on a machine with apt and a network: puts the packages into .deps/, which travels along
#   tests/gpu.sh STAGE...    on the machine with the GPU: runs stages in turn; each uses what earlier ones built:
#     first                  in nine minutes of 16 cores: the tests of kernels and runtime; both MNIST models, their ops'
#                            times (--program) and 5,000 steps; the ops' times of GPT-2 124M and of ResNet-18; what the
#                            loop costs: nodes, launches and branches (graph_bench), recording and calls (step_bench);
#                            CUDA's behaviour, which the emulation assumes
#     tests                  the GPU tests of all other folders, and of the samples that are models
#     sanitize-kernels       the kernels' tests under compute-sanitizer, half of the time for memcheck and half for
#                            racecheck; sanitize-kernels-memcheck and sanitize-kernels-racecheck spend all of it on one
#     compare-MODEL-BATCH[-INTERVAL[-DTYPE]]    compares the sample with python3's PyTorch and JAX
#                            (tests/bench/train_step): MODEL is linear or cnn; the loss is logged every INTERVAL steps
#                            (default 1; 0: never); DTYPE is f32 (default), tf32, bf16 or f16
#   tests/gpu.sh list        stages and their limits in seconds
#   tests/gpu.sh rehearse [STAGE...]    a little of each stage on the emulated GPU: in a copy of the tree, without a
#                            network and without the installed packages; as root
# Needs nvcc, a C++ compiler, CMake, and cuDNN in the toolkit, the system or Python's nvidia packages. Each part's
# result and seconds go to summary.txt, and its output to a log as it comes, in $OUT or else build-cuda/results/. If a
# part fails or is stopped, the next ones still run, and the exit code is 1. GIRO_COMPARE: other options for train_step.
# GIRO_COMMIT: the commit, if there is no git.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
build=$root/build-cuda
out=${OUT:-$build/results}
packages=$build/packages
data=/usr/share/datasets/fashion-mnist
mnist=$build/samples/mnist
status=0
export PATH=$PATH:/usr/local/cuda/bin  # nvcc, compute-sanitizer

declare -A limits=([first]=540 [tests]=560 [sanitize-kernels]=560 [compare]=560)  # seconds; a call has ten minutes
declare -A floors=([linear]=0.825 [cnn]=0.885)  # the least accuracy after that many steps
models=(linear cnn) batches=(32 1024) steps=5000 slower=1
gpt2=(--layers 12 --heads 12 --width 768 --context 1024 --vocabulary 50257 --batch 8 --bytes-per-token 2 --prompt-ids 0)
resnet=(--batch 128)
graph_bench=() step_bench=() models_tests=()
compare=(--rounds 5 --seconds 0.7)
emulate=()
if [ -n "${GIRO_REHEARSAL:-}" ]; then
  # The emulated GPU takes minutes for a step of the cnn, and the machine may be busy.
  models=(linear) floors=([linear]=0) batches=(2 3) steps=30 slower=30
  models_tests=(-k language_model)
  gpt2=(--layers 1 --heads 1 --width 8 --context 8 --vocabulary 50257 --batch 1 --bytes-per-token 2 --prompt-ids 0)
  resnet=(--batch 2 --features 4)
  graph_bench=('--benchmark_filter=^[^g].*[/_](1|4)(/|$)')
  step_bench=('--benchmark_filter=linear' --benchmark_min_time=0.01)
  compare=(--rounds 2 --seconds 0.1 --peers)
  export GTEST_TOTAL_SHARDS=40 GTEST_SHARD_INDEX=0
  emulate=(env "LD_PRELOAD=$build/tests/cuda_on_cpu/libcuda_on_cpu.so")
fi

gpu() { nvidia-smi "--query-gpu=$1" --format=csv,noheader | head -n 1; }

say() { echo "gpu.sh: $*" | tee -a "$out/summary.txt"; }

# begin STAGE [NAME]: its parts are stopped when its time is up.
begin() {
  deadline=$((SECONDS + limits[$1] * slower))
  say "${2:-$1}: $(date -u +%FT%TZ), $(gpu name,driver_version)," \
    "commit ${GIRO_COMMIT:-$(git describe --always --dirty 2>/dev/null || echo unknown)}"
}

# part NAME LIMIT LOG COMMAND...
part() {
  local name=$1 limit=$(($2 * slower)) log=$out/$3 start=$SECONDS code=0 before
  shift 3
  [ $((deadline - SECONDS)) -ge "$limit" ] || limit=$((deadline - SECONDS))
  echo "== $name: $*" >>"$log"
  before=$(wc -c <"$log")
  if [ "$limit" -le 0 ]; then
    code=late
  else
    timeout --kill-after 5 "$limit" "$@" >>"$log" 2>&1 || code=$?
  fi
  case $code in
    0) say "$name: ok, $((SECONDS - start)) s"; return ;;
    late) say "$name: NOT RUN, the stage's time is over" ;;
    124 | 137) say "$name: STOPPED after $((SECONDS - start)) s" ;;
    *) tail -c "+$((before + 1))" "$log" | tail -n 40; say "$name: FAILED with exit code $code, $((SECONDS - start)) s" ;;
  esac
  status=1
  return 1
}

fetch() {
  mkdir -p .deps && cd .deps && rm -f ./*.deb || return
  apt-get download libdnnl-dev libdnnl2 ocl-icd-libopencl1 libfmt-dev libfmt9 nlohmann-json3-dev libcli11-dev \
    libgtest-dev zlib1g-dev zlib1g libxxhash-dev libisal-dev libisal2 libpng-dev libpng16-16 dataset-fashion-mnist \
    libbenchmark-dev libbenchmark1debian libopenmpi-dev libopenmpi3 openmpi-bin openmpi-common libpmix2 libhwloc15 \
    libevent-core-2.1-7 libevent-pthreads-2.1-7 libltdl7 || return
  ../cmake/install_cudnn_frontend.sh || return
  local mebibytes
  mebibytes=$(du -sm . | cut -f 1)
  echo "gpu.sh: .deps/ holds $mebibytes MiB"
  [ "$mebibytes" -le 56 ] || { echo "gpu.sh: with the tree that is more than the 64 MiB that travel" >&2; return 1; }
}

use_packages() {
  compgen -G ".deps/*.deb" >/dev/null || return 0
  local deb name libraries=$packages/usr/lib/x86_64-linux-gnu:$packages/lib/x86_64-linux-gnu
  if [ ! -e "$packages" ]; then
    mkdir -p "$packages"
    for deb in .deps/*.deb; do dpkg -x "$deb" "$packages" || exit; done
    # The names that an installation would have given MPI's programs.
    for name in mpirun mpiexec mpicc mpicxx; do ln -s "$name.openmpi" "$packages/usr/bin/$name"; done
  fi
  libraries=$libraries:$packages/usr/lib/x86_64-linux-gnu/openmpi/lib:$packages/usr/lib/x86_64-linux-gnu/pmix2/lib
  export OPAL_PREFIX=$packages/usr PATH=$packages/usr/bin:$PATH
  export CMAKE_PREFIX_PATH=$packages/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # The linker must also find what the packages' shared libraries need.
  export LDFLAGS="-Wl,-rpath-link,${libraries//:/,-rpath-link,} ${LDFLAGS:-}"
  data=$packages/usr/share/datasets/fashion-mnist
}

# compile TARGET...
compile() {
  local options=(--preset cuda -DCMAKE_UNITY_BUILD=ON -DGIRO_BENCHMARKS=ON) target architecture
  architecture=$(gpu compute_cap | tr -d .)
  [ -z "$architecture" ] || options+=("-DCMAKE_CUDA_ARCHITECTURES=$architecture-real")
  if [ ${#emulate[@]} -gt 0 ]; then
    options+=(-DGIRO_CUDA_ON_CPU=ON -DCMAKE_CUDA_ARCHITECTURES=80-virtual -DCMAKE_CXX_FLAGS_RELEASE=-O1)  # quick to compile
    for target in "$@"; do [[ $target =~ ^(runtime|kernels_nn|loop_step)_test$ ]] && set -- "$@" "${target}_on_cpu"; done
    set -- "$@" cuda_on_cpu
  fi
  [ -e "$build/CMakeCache.txt" ] || ! command -v ninja >/dev/null || export CMAKE_GENERATOR=Ninja
  part configure 90 build.log cmake "${options[@]}" || return
  # If something does not compile, the rest is built all the same.
  local rest=(-k)
  [ ! -e "$build/build.ninja" ] || rest+=(0)
  part "build $*" 300 build.log cmake --build "$build" --target "$@" --parallel "$(nproc)" -- "${rest[@]}"
}

# gpu_tests TARGET LIMIT [FILTER]: in one process, since each process initializes CUDA anew.
gpu_tests() {
  local kernels=$build/tests/lib$1_on_cpu.so with=("${emulate[@]}")
  [ ! -e "$kernels" ] || with[1]+=:$kernels
  part "$1" "$2" tests.log "${with[@]}" "$build/tests/$1" "--gtest_filter=${3:-*cuda*:*Cuda*:*CUDA*}"
  ! sed -n "/^== $1: /,\$p" "$out/tests.log" | grep -q '^\[==========\] Running 0 tests' ||
    { say "$1: FAILED, it has no test of a GPU"; status=1; }
  # Only the emulation makes the libraries decline, so only tests named Declined may be skipped.
  ! sed -n "/^== $1: /,\$p" "$out/tests.log" | grep '^\[  SKIPPED \] .*(' | grep -v Declined >/dev/null ||
    { say "$1: FAILED, tests skipped themselves: there is no usable GPU"; status=1; }
}

first() {
  local suite model batch dtype behaviour='-*OnCpu*' end
  local suites=(kernels_test kernels_nn_test kernels_expr_test runtime_test runtime_files_test)
  begin first
  compile "${suites[@]}" mnist gpt2 resnet graph_bench step_bench cuda_behaviour_test
  # Half of what is left is for the models and the loop.
  end=$deadline deadline=$((deadline - (deadline - SECONDS) / 2))
  for suite in "${suites[@]}"; do gpu_tests "$suite" 120; done
  deadline=$end
  for model in "${models[@]}"; do
    for batch in "${batches[@]}"; do
      for dtype in f32 bf16; do
        part "program of $model, batch $batch, $dtype" 30 program.txt "${emulate[@]}" "$mnist" --program \
          --model "$model" --batch "$batch" --dtype "$dtype" --device cuda --data "$data"
      done
    done
  done
  for model in "${models[@]}"; do train "$model"; done
  python3 -c "import array, random; open('$build/tokens', 'wb').write(
    array.array('H', random.choices(range(50257), k=20_000)))"
  part "program of gpt2, bf16" 40 program.txt "${emulate[@]}" "$build/samples/gpt2" --program --dtype bf16 \
    --device cuda --data "$build/tokens" "${gpt2[@]}"
  part "program of resnet, bf16" 40 program.txt "${emulate[@]}" "$build/samples/resnet" --program --dtype bf16 \
    --device cuda "${resnet[@]}"
  part graph_bench 60 graph_bench.txt "${emulate[@]}" "$build/tests/bench/graph_bench" "${graph_bench[@]}"
  ! grep -q 'ERROR OCCURRED' "$out/graph_bench.txt" || { say "graph_bench: FAILED, a case was skipped"; status=1; }
  part step_bench 40 step_bench.txt "${emulate[@]}" "$build/tests/bench/step_bench" --device=cuda "${step_bench[@]}"
  [ ${#emulate[@]} -eq 0 ] || behaviour='Cudnn*:CublasLt*:-*OnCpu*'  # the emulation has no kernels of this program
  gpu_tests cuda_behaviour_test 60 "$behaviour"
  # One rank, whose gradients are reduced nevertheless.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  train linear --partition data
}

# train MODEL [OPTION...]
train() {
  local model=$1 logdir=$build/logdir/$1-$# name launch=()
  shift
  name="$steps steps of $model${*:+ $*}"
  [ $# -eq 0 ] || launch=(mpirun -n 1)
  rm -rf "$logdir"
  part "$name" 60 train.txt "${launch[@]}" "${emulate[@]}" "$mnist" --model "$model" --batch "${batches[0]}" \
    --steps "$steps" --device cuda --data "$data" --logdir "$logdir" "$@" || return
  part "$name, accuracy" 10 train.txt python3 - "${floors[$model]}" "$out/train.txt" "$out/summary.txt" <<'PYTHON'
import json, sys

floor, log, summary = float(sys.argv[1]), open(sys.argv[2]).read(), open(sys.argv[3], "a")
result = json.loads(log[log.rindex("\nresult: ") + 9:].splitlines()[0])
speed, accuracy = result["steps_per_second"], result["test_accuracy"]
print(f"{1e6 / speed:.1f} us a step, test accuracy {accuracy:.4f}, test loss {result['test_loss']:.4f}", file=summary)
if not result["device"].startswith("cuda"):
    sys.exit(f"trained on {result['device']}")
if accuracy < floor:
    sys.exit(f"test accuracy {accuracy} is below {floor}")
PYTHON
}

tests() {
  local folder target targets=()
  begin tests
  for folder in $(find tests -name '*_test.cpp' -not -path '*/cuda_on_cpu/*' -printf '%h\n' | sort -u); do
    target=${folder#tests/}
    target=${target//\//_}_test
    [[ $target =~ ^(kernels|runtime) ]] || targets+=("$target")
  done
  compile "${targets[@]}" resnet rnnlm || return
  for target in "${targets[@]}"; do gpu_tests "$target" 120 ; done
  part "samples' tests" 120 tests.log "${emulate[@]}" env GIRO_TEST_DEVICE=cuda python3 tests/samples/models_test.py \
    "${models_tests[@]}" "$build/samples/resnet" "$build/samples/rnnlm"
}

# sanitize TOOL...: runs shards in parallel, since most of the time is spent on the host.
sanitize() {
  local limit tool filter shards=8
  begin sanitize-kernels
  compile kernels_test || return
  limit=$(((deadline - SECONDS) / slower / $#))
  for tool in "$@"; do
    filter='*cuda*'
    # Races in the libraries are not giro's, so racecheck skips the ops that call them.
    [ "$tool" = memcheck ] || filter+=':-*Dense*:*Conv2d*:*Pool*'
    # Separate allocations for temporaries, so that memcheck sees where each ends.
    part "$tool of kernels_test" "$limit" "$tool.log" xargs --arg-file <(seq 0 $((shards - 1))) -P $shards -I{} \
      "${emulate[@]}" env GIRO_ARENA=0 GTEST_SHARD_INDEX={} GTEST_TOTAL_SHARDS=$((shards * ${GTEST_TOTAL_SHARDS:-1})) \
      compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 \
      "$build/tests/kernels_test" "--gtest_filter=$filter" --gtest_brief=1
  done
}

# compare MODEL BATCH INTERVAL DTYPE
compare() {
  local name=compare-$1-$2-$3-$4 options
  begin compare "$name"
  compile mnist || return
  read -ra options <<<"${GIRO_COMPARE:-${compare[*]}}"
  part "$name" 400 "$name.txt" "${emulate[@]}" python3 -u tests/bench/train_step --device cuda --sample "$mnist" \
    --data "$data" --json "$out/$name.json" --models "$1" --batches "$2" --log-every "$3" --dtypes "$4" --limit 40 \
    "${options[@]}"
}

rehearse() {
  tree=$(mktemp -d)
  trap 'rm -rf --one-file-system "$tree"' EXIT
  [ $# -gt 0 ] || set -- first tests sanitize-kernels compare-linear-2 compare-linear-3-0-bf16
  compgen -G ".deps/*.deb" >/dev/null || { echo "gpu.sh: no packages in .deps/: run tests/gpu.sh fetch" >&2; return 1; }
  git ls-files --cached --others --exclude-standard | tar -c --ignore-failed-read --files-from - | tar -x -C "$tree" ||
    return
  cp -r .deps "$tree/"
  GIRO_COMMIT=$(git describe --always --dirty) unshare --mount --net tests/gpu_rehearsal.sh "$tree" "$@"
}

usage() {
  echo "gpu.sh: no stage '$1': fetch, list, rehearse, first, tests, sanitize-kernels[-memcheck|-racecheck]," \
    "compare-{linear,cnn}-BATCH[-INTERVAL[-{f32,tf32,bf16,f16}]]" >&2
  exit 2
}

for stage in "${@:-none}"; do
  case $stage in fetch | list | rehearse) break ;; esac
  [[ $stage =~ ^(first|tests|sanitize-kernels(-memcheck|-racecheck)?)$ ||
     $stage =~ ^compare-(linear|cnn)-[1-9][0-9]*(-[0-9]+(-(f32|tf32|bf16|f16))?)?$ ]] || usage "$stage"
done
case $1 in
  fetch) fetch; exit ;;
  list) for stage in "${!limits[@]}"; do echo "$stage ${limits[$stage]}"; done; exit ;;
  rehearse) rehearse "${@:2}"; exit ;;
esac
mkdir -p "$out"
use_packages
for stage in "$@"; do
  case $stage in
    first | tests) "$stage" ;;
    sanitize-kernels) sanitize memcheck racecheck ;;
    sanitize-*) sanitize "${stage##*-}" ;;
    compare-*)
      IFS=- read -r model batch interval dtype <<<"${stage#compare-}"
      compare "$model" "$batch" "${interval:-1}" "${dtype:-f32}"
      ;;
  esac
done
exit "$status"
