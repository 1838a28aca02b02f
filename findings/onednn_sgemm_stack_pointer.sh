#!/usr/bin/env bash
# oneDNN's sgemm computes with the stack pointer as one more register, and without AVX-512 its matmul primitive does so,
# too ("gemm:jit"). A signal whose handler has no stack of its own (sigaltstack and SA_ONSTACK) is then written to
# wherever the matrices lie. So giro lets no signal reach a thread while it computes such a product.
#
# oneDNN 3.2 (PyPI: onednn-cpu-gomp 2023.2.0), f32, (256, 768) by (768, 768), one thread, AVX2, looked at from a handler
# that has a stack of its own.
# Seen: nearly all of 500 looks find the stack pointer outside the thread's stack, within either.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
grep -qw avx2 /proc/cpuinfo && ! grep -qw avx512f /proc/cpuinfo ||
  { echo "needs a CPU with AVX2 and without AVX-512"; exit 77; }
python3 -m venv "$folder/python" &&
  "$folder/python/bin/pip" install --quiet onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0 ||
  { echo "no packages from PyPI"; exit 77; }
cat >"$folder/look.cpp" <<'END'
#include <oneapi/dnnl/dnnl.hpp>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <vector>

constexpr dnnl::memory::dim kRows = 256, kInner = 768, kColumns = 768;
constexpr int kLooks = 500;
std::uintptr_t stack_begin, stack_end;
volatile sig_atomic_t looks, outside;

void look(int, siginfo_t*, void* context) {
  const auto at = static_cast<std::uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
  looks = looks + 1;
  if (at < stack_begin || at >= stack_end) outside = outside + 1;
}

template <class Multiply>
int looks_outside(Multiply multiply) {
  multiply();  // what is prepared once is not looked at
  looks = outside = 0;
  const itimerval each{{0, 1000}, {0, 1000}}, none{};
  setitimer(ITIMER_PROF, &each, nullptr);
  while (looks < kLooks) multiply();
  setitimer(ITIMER_PROF, &none, nullptr);
  return outside;
}

int main() {
  pthread_attr_t attributes;
  void* begin = nullptr;
  std::size_t size = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &begin, &size);
  stack_begin = reinterpret_cast<std::uintptr_t>(begin), stack_end = stack_begin + size;

  std::vector<char> own(1 << 16);
  stack_t stack{};
  stack.ss_sp = own.data(), stack.ss_size = own.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = look;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);

  std::vector<float> a(kRows * kInner, 1), b(kInner * kColumns, 1), c(kRows * kColumns);
  const int in_sgemm = looks_outside([&] {
    dnnl::sgemm('N', 'N', kRows, kColumns, kInner, 1, a.data(), kInner, b.data(), kColumns, 0, c.data(), kColumns);
  });
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto plain = [](dnnl::memory::dim m, dnnl::memory::dim n) {
    return dnnl::memory::desc({m, n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  };
  const auto x = plain(kRows, kInner), w = plain(kInner, kColumns), y = plain(kRows, kColumns);
  const dnnl::matmul::primitive_desc chosen(engine, x, w, y);
  const dnnl::matmul product(chosen);
  const int in_matmul = looks_outside([&] {
    product.execute(stream, {{DNNL_ARG_SRC, {x, engine, a.data()}},
                             {DNNL_ARG_WEIGHTS, {w, engine, b.data()}},
                             {DNNL_ARG_DST, {y, engine, c.data()}}});
    stream.wait();
  });
  const dnnl_version_t* const version = dnnl_version();
  std::printf("oneDNN %d.%d.%d: of %d looks found the stack pointer elsewhere: within sgemm %d, within matmul (%s) %d\n",
              version->major, version->minor, version->patch, kLooks, in_sgemm, chosen.impl_info_str(), in_matmul);
  return in_sgemm > kLooks / 2 && in_matmul > kLooks / 2 ? 0 : 1;
}
END
cd "$folder"
g++ -std=c++17 -O1 look.cpp -I python/include -L python/lib -ldnnl -Wl,-rpath,"$folder/python/lib" -o look
OMP_NUM_THREADS=1 ./look
