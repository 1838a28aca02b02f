#!/usr/bin/env bash
# Without AVX-512, a row that oneDNN's matmul primitive multiplies alone has other bits than the same row in a batch:
# the primitive then takes sgemm's kernels ("gemm:jit"), which add in another order for few rows. So no choice between
# sgemm and matmul makes a model answer alike for one request and for many.
#
# oneDNN 3.2 (PyPI: onednn-cpu-gomp 2023.2.0), f32, (32, 768) by (768, 256), one thread, AVX2.
# Seen: 7,688 of the 8,192 elements differ in their last bits, with either.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
grep -qw avx2 /proc/cpuinfo && ! grep -qw avx512f /proc/cpuinfo ||
  { echo "needs a CPU with AVX2 and without AVX-512"; exit 77; }
python3 -m venv "$folder/python" &&
  "$folder/python/bin/pip" install --quiet onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0 ||
  { echo "no packages from PyPI"; exit 77; }
cat >"$folder/rows.cpp" <<'END'
#include <oneapi/dnnl/dnnl.hpp>

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

constexpr dnnl::memory::dim kRows = 32, kInner = 768, kColumns = 256;
using Values = std::vector<float>;
std::string implementation;

void by_sgemm(dnnl::memory::dim rows, const float* a, const float* b, float* c) {
  dnnl::sgemm('N', 'N', rows, kColumns, kInner, 1, a, kInner, b, kColumns, 0, c, kColumns);
}

void by_matmul(dnnl::memory::dim rows, const float* a, const float* b, float* c) {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto plain = [](dnnl::memory::dim m, dnnl::memory::dim n) {
    return dnnl::memory::desc({m, n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  };
  const auto x = plain(rows, kInner), w = plain(kInner, kColumns), y = plain(rows, kColumns);
  const dnnl::matmul::primitive_desc chosen(engine, x, w, y);
  implementation = chosen.impl_info_str();
  dnnl::matmul(chosen).execute(stream, {{DNNL_ARG_SRC, {x, engine, const_cast<float*>(a)}},
                                        {DNNL_ARG_WEIGHTS, {w, engine, const_cast<float*>(b)}},
                                        {DNNL_ARG_DST, {y, engine, c}}});
  stream.wait();
}

template <class Multiply>
int differing(Multiply multiply) {
  std::mt19937 random(0);
  std::normal_distribution<float> normal;
  Values a(kRows * kInner), b(kInner * kColumns), batch(kRows * kColumns), alone(kRows * kColumns);
  for (Values* values : {&a, &b})
    for (float& value : *values) value = normal(random);
  multiply(kRows, a.data(), b.data(), batch.data());
  for (int r = 0; r < kRows; ++r) multiply(1, &a[r * kInner], b.data(), &alone[r * kColumns]);
  int count = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) count += std::memcmp(&batch[i], &alone[i], sizeof(float)) != 0;
  return count;
}

int main() {
  const dnnl_version_t* const version = dnnl_version();
  const int of_sgemm = differing(by_sgemm), of_matmul = differing(by_matmul);
  std::printf("oneDNN %d.%d.%d: of 8,192 elements differ with sgemm %d, with matmul (%s) %d\n", version->major,
              version->minor, version->patch, of_sgemm, implementation.c_str(), of_matmul);
  return of_sgemm > 4096 && of_matmul > 4096 ? 0 : 1;
}
END
cd "$folder"
g++ -std=c++17 -O1 rows.cpp -I python/include -L python/lib -ldnnl -Wl,-rpath,"$folder/python/lib" -o rows
OMP_NUM_THREADS=1 ./rows
