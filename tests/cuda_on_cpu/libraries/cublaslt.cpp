// cuBLASLt as giro uses it: one product with one epilogue, or a strided batch of products, summed in double.
// Descriptors accept and reject what cuBLASLt 13 does; the ctest cudnn_real_codes runs the same tests on the real one.
// The other codes follow cuBLAS's reference of cublasLtMatmul(): NOT_INITIALIZED without a handle, INVALID_VALUE for
// anything missing, in conflict or impossible (such as a workspace that is too small), and NOT_SUPPORTED for what no
// algorithm computes. Here that is everything that is not emulated.
//
// "Reference" below is the section "Using the cuBLASLt API" of https://docs.nvidia.com/cuda/cublas, for CUDA 13. Names
// in capitals are documented in cublasLt.h of cuBLAS 13.1.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/libraries/decline.h"
#include "tests/cuda_on_cpu/libraries/objects.h"
#include "tests/cuda_on_cpu/libraries/tf32.h"
#include "tests/cuda_on_cpu/libraries/work.h"

namespace cuda_on_cpu {
namespace {

constexpr const char* kHandle = "cuBLASLt handle";
constexpr const char* kMatmulDesc = "cuBLASLt matmul descriptor";
constexpr const char* kLayout = "cuBLASLt matrix layout";
constexpr const char* kPreference = "cuBLASLt preference";

struct Library {
  LibraryMemory memory = std::make_shared<char>();
};

struct MatmulDesc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;  // of D's type, which is the default of CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE
};

constexpr std::tuple kMatmulDescAttributes{std::pair{CUBLASLT_MATMUL_DESC_TRANSA, &MatmulDesc::transpose_a},
                                           std::pair{CUBLASLT_MATMUL_DESC_TRANSB, &MatmulDesc::transpose_b},
                                           std::pair{CUBLASLT_MATMUL_DESC_EPILOGUE, &MatmulDesc::epilogue},
                                           std::pair{CUBLASLT_MATMUL_DESC_BIAS_POINTER, &MatmulDesc::bias}};

struct Layout {
  std::uint32_t type;
  std::uint64_t rows, cols;
  std::int64_t ld;
  std::int32_t order = CUBLASLT_ORDER_COL;
  // The defaults and their meaning follow CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT and _STRIDED_BATCH_OFFSET.
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;  // in elements

  std::size_t index(std::uint64_t row, std::uint64_t col) const {
    return order == CUBLASLT_ORDER_COL ? row + col * static_cast<std::uint64_t>(ld)
                                       : row * static_cast<std::uint64_t>(ld) + col;
  }
  // The length of a run of elements without gaps, and the number of runs.
  std::uint64_t run() const { return order == CUBLASLT_ORDER_COL ? rows : cols; }
  std::uint64_t runs() const { return order == CUBLASLT_ORDER_COL ? cols : rows; }
  bool operator==(const Layout&) const = default;
};

constexpr std::tuple kLayoutAttributes{std::pair{CUBLASLT_MATRIX_LAYOUT_ORDER, &Layout::order},
                                       std::pair{CUBLASLT_MATRIX_LAYOUT_LD, &Layout::ld},
                                       std::pair{CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &Layout::batch},
                                       std::pair{CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &Layout::batch_stride}};

// Operands are assumed to be aligned to this unless a preference says otherwise: the default of
// CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES.
constexpr std::uint32_t kDefaultAlignment = 256;

struct Preference {
  std::uint64_t workspace = 0;  // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: by default none is allowed
  std::uint32_t alignment_a = kDefaultAlignment, alignment_b = kDefaultAlignment, alignment_c = kDefaultAlignment,
                alignment_d = kDefaultAlignment;
};

constexpr std::tuple kPreferenceAttributes{
    std::pair{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &Preference::workspace},
    std::pair{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &Preference::alignment_a},
    std::pair{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &Preference::alignment_b},
    std::pair{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &Preference::alignment_c},
    std::pair{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &Preference::alignment_d}};

// The contents of the opaque cublasLtMatmulAlgo_t: the promises that the choice was based on.
struct Algorithm {
  std::uint64_t magic, workspace, problem;
  std::uint32_t alignment[5];  // of A, B, C, D and the bias
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));
constexpr std::uint64_t kMagic = 0x6c74'6d61'746d'756c;
constexpr std::uint64_t kWorkspace = 4096;
constexpr std::size_t kWorkspaceAlignment = 256;  // reference of cublasLtMatmul()

template <class Body>
cublasStatus_t cublaslt(Body&& body, const char* call = __builtin_FUNCTION()) {
  return library_call(CUBLAS_STATUS_EXECUTION_FAILED, std::forward<Body>(body), call);
}

struct StatusText {
  const char *name, *text;
};

StatusText describe(cublasStatus_t status) {
  static const std::map<cublasStatus_t, StatusText> all{
      {CUBLAS_STATUS_SUCCESS, {"CUBLAS_STATUS_SUCCESS", "success"}},
      {CUBLAS_STATUS_NOT_INITIALIZED, {"CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"}},
      {CUBLAS_STATUS_ALLOC_FAILED, {"CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"}},
      {CUBLAS_STATUS_INVALID_VALUE, {"CUBLAS_STATUS_INVALID_VALUE", "an invalid value was used as a parameter"}},
      {CUBLAS_STATUS_EXECUTION_FAILED, {"CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute"}},
      {CUBLAS_STATUS_NOT_SUPPORTED, {"CUBLAS_STATUS_NOT_SUPPORTED", "the functionality is not supported"}}};
  const auto found = all.find(status);
  return found != all.end() ? found->second : StatusText{"an unknown status", "an unknown status"};
}

cublasStatus_t valid(bool is) { return is ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; }

template <class T>
cublasStatus_t set(T& attribute, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// Sets the descriptor's member for the attribute, one of `members`.
template <class T, class Attribute, class... Members>
cublasStatus_t set(T* descriptor, const std::tuple<std::pair<Attribute, Members T::*>...>& members, Attribute attribute,
                   const void* value, std::size_t bytes) {
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  const auto set_one = [&](const auto& member) {
    if (member.first == attribute) status = set(descriptor->*member.second, value, bytes);
  };
  std::apply([&](const auto&... member) { (set_one(member), ...); }, members);
  return status;
}

std::size_t size_of(std::uint32_t type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    default:
      return 0;
  }
}

double load(const void* data, std::uint32_t type, std::size_t index) {
  switch (type) {
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[index]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

void store(void* data, std::uint32_t type, std::size_t index, double value) {
  switch (type) {
    case CUDA_R_16F:
      static_cast<__half*>(data)[index] = __double2half(value);
      break;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[index] = __double2bfloat16(value);
      break;
    default:
      static_cast<float*>(data)[index] = static_cast<float>(value);
  }
}

// One product, D = epilogue(alpha op(A) op(B) + beta C), with copies of everything that it needs.
struct Product {
  MatmulDesc desc;
  Layout a, b, c, d;

  bool transposes_a() const { return desc.transpose_a != CUBLAS_OP_N; }
  bool transposes_b() const { return desc.transpose_b != CUBLAS_OP_N; }
  std::uint64_t m() const { return d.rows; }
  std::uint64_t n() const { return d.cols; }
  std::uint64_t k() const { return transposes_a() ? a.rows : a.cols; }

  bool adds_bias() const { return (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool applies_relu() const { return (desc.epilogue & CUBLASLT_EPILOGUE_RELU) != 0; }
  bool writes_bias() const {
    return desc.epilogue == CUBLASLT_EPILOGUE_BGRADA || desc.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }

  cublasStatus_t check() const;
  std::uint64_t hash() const;  // of the shapes and epilogue that an algorithm is chosen for
};

cublasStatus_t Product::check() const {
  const bool tf32 = desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if ((desc.compute != CUBLAS_COMPUTE_32F && !tf32) || desc.scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  // Reference of cublasLtMatmul(), "Datatypes Supported": both operands have one type, the result has that type or f32,
  // and only f32 is computed in TF32.
  if (a.type != b.type || c.type != d.type || (d.type != a.type && d.type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (tf32 && a.type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  switch (desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  // Reference of cublasLtMatmul(), note 6: no epilogue combines ReLU with a bias for a row-major D.
  if (desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS && d.order == CUBLASLT_ORDER_ROW) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const Layout* layout : {&a, &b, &c, &d}) {
    if (size_of(layout->type) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (layout->rows == 0 || layout->cols == 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (layout->order != CUBLASLT_ORDER_COL && layout->order != CUBLASLT_ORDER_ROW) return CUBLAS_STATUS_NOT_SUPPORTED;
    // CUBLASLT_MATRIX_LAYOUT_LD: columns, or rows if row-major, must not overlap.
    if (layout->ld < static_cast<std::int64_t>(layout->run())) return CUBLAS_STATUS_INVALID_VALUE;
    if (layout->batch < 1 || layout->batch != d.batch || layout->batch_stride < 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  // The results of a batch must not overlap, just as columns must not. An epilogue's vectors would need their own
  // stride, which is not emulated.
  const bool overlaps = d.batch > 1 && d.batch_stride < d.ld * static_cast<std::int64_t>(d.runs());
  if (overlaps) return CUBLAS_STATUS_INVALID_VALUE;
  if (d.batch > 1 && (adds_bias() || writes_bias())) return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::uint64_t a_rows = transposes_a() ? a.cols : a.rows;
  const std::uint64_t b_rows = transposes_b() ? b.cols : b.rows, b_cols = transposes_b() ? b.rows : b.cols;
  // Reference of cublasLtMatmul(): C has D's type, rows, columns, batch and order. A leading dimension of 0 for C is
  // allowed there, but not emulated.
  const bool fits =
      a_rows == m() && b_rows == k() && b_cols == n() && c.rows == m() && c.cols == n() && c.order == d.order;
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

std::uint64_t Product::hash() const {
  std::uint64_t hash = 14695981039346656037u;
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  mix(desc.epilogue);
  mix(static_cast<std::uint64_t>(desc.compute));
  mix(static_cast<std::uint64_t>(desc.transpose_a));
  mix(static_cast<std::uint64_t>(desc.transpose_b));
  for (const Layout* layout : {&a, &b, &c, &d}) {
    for (const std::uint64_t value :
         {std::uint64_t{layout->type}, layout->rows, layout->cols, static_cast<std::uint64_t>(layout->ld),
          static_cast<std::uint64_t>(layout->order), static_cast<std::uint64_t>(layout->batch),
          static_cast<std::uint64_t>(layout->batch_stride)}) {
      mix(value);
    }
  }
  return hash;
}

struct Arguments {
  const void *a, *b, *c;
  void* d;
  float alpha, beta;
};

constexpr const char* kMatmul = "cublasLtMatmul";

template <class Touch>
void for_each_run(const void* data, const Layout& layout, Touch&& touch) {
  const std::size_t size = size_of(layout.type), stride = static_cast<std::size_t>(layout.ld) * size;
  if (static_cast<std::uint64_t>(layout.ld) == layout.run()) return touch(data, stride * layout.runs());
  for (std::uint64_t i = 0; i < layout.runs(); ++i) {
    touch(static_cast<const char*>(data) + i * stride, layout.run() * size);
  }
}

// op(X) or its transpose, whichever has k last, as contiguous rows.
std::vector<double> rows_of(const void* data, const Layout& layout, bool k_is_rows) {
  const std::uint64_t outer = k_is_rows ? layout.cols : layout.rows, k = k_is_rows ? layout.rows : layout.cols;
  std::vector<double> rows(outer * k);
  for (std::uint64_t i = 0; i < outer; ++i) {
    for (std::uint64_t p = 0; p < k; ++p) {
      rows[i * k + p] = load(data, layout.type, k_is_rows ? layout.index(p, i) : layout.index(i, p));
    }
  }
  return rows;
}

// The bias gradient: the sum of each row of `rows`, over k (CUBLASLT_EPILOGUE_BGRADA, _BGRADB).
void store_sums(const std::vector<double>& rows, std::uint64_t count, std::uint64_t k, const Product& p) {
  for (std::uint64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (std::uint64_t j = 0; j < k; ++j) sum += rows[i * k + j];
    store(p.desc.bias, p.d.type, i, sum);
  }
}

void multiply(const Product& p, const Arguments& arguments, Operands& operands) {
  const std::uint64_t m = p.m(), n = p.n(), k = p.k();
  const auto read = [&](const void* data, std::size_t bytes) { operands.read(data, bytes); };
  const auto write = [&](const void* data, std::size_t bytes) { operands.write(data, bytes); };
  for_each_run(arguments.a, p.a, read);
  for_each_run(arguments.b, p.b, read);
  // CUBLASLT_EPILOGUE_BIAS: one element for each row of D, without gaps.
  if (p.adds_bias()) read(p.desc.bias, m * size_of(p.d.type));
  if (arguments.beta != 0 && arguments.c == arguments.d) {  // in place
    for_each_run(arguments.c, p.c, [](const void* data, std::size_t bytes) { will_read(data, bytes, kMatmul); });
  } else if (arguments.beta != 0) {
    for_each_run(arguments.c, p.c, read);
  }
  for_each_run(arguments.d, p.d, write);
  if (p.writes_bias()) write(p.desc.bias, (p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA ? m : n) * size_of(p.d.type));

  std::vector<double> a = rows_of(arguments.a, p.a, p.transposes_a());
  std::vector<double> b = rows_of(arguments.b, p.b, !p.transposes_b());
  // The sums use the unrounded values; only products use TF32.
  if (p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA) store_sums(a, m, k, p);
  if (p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADB) store_sums(b, n, k, p);
  if (p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
    std::transform(a.begin(), a.end(), a.begin(), to_tf32);
    std::transform(b.begin(), b.end(), b.begin(), to_tf32);
  }
  for (std::uint64_t i = 0; i < m; ++i) {
    for (std::uint64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::uint64_t q = 0; q < k; ++q) sum += a[i * k + q] * b[j * k + q];
      double value = arguments.alpha * sum;
      if (arguments.beta != 0) value += arguments.beta * load(arguments.c, p.c.type, p.c.index(i, j));
      if (p.adds_bias()) value += load(p.desc.bias, p.d.type, i);
      if (p.applies_relu() && !(value > 0)) value = 0;  // CUBLASLT_EPILOGUE_RELU: max(x, 0), which leaves NaN open
      store(arguments.d, p.d.type, p.d.index(i, j), value);
    }
  }
}

void multiply_batch(const Product& p, const Arguments& arguments, Operands& operands) {
  for (std::int32_t i = 0; i < p.d.batch; ++i) {
    const auto offset = [i](const Layout& layout) {
      return static_cast<std::size_t>(layout.batch_stride * i) * size_of(layout.type);
    };
    Arguments each = arguments;
    each.a = static_cast<const char*>(each.a) + offset(p.a);
    each.b = static_cast<const char*>(each.b) + offset(p.b);
    if (each.c != nullptr) each.c = static_cast<const char*>(each.c) + offset(p.c);
    each.d = static_cast<char*>(each.d) + offset(p.d);
    multiply(p, each, operands);
  }
}

bool is_aligned(const void* pointer, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

// CUBLASLT_MATMUL_DESC_BIAS_POINTER: an algorithm is chosen for the alignment of the bias that the descriptor holds at
// that time.
std::uint32_t alignment_of(const void* bias) {
  std::uint32_t alignment = kDefaultAlignment;
  while (!is_aligned(bias, alignment)) alignment /= 2;
  return alignment;
}

cublasStatus_t choose(const Product& product, const Preference& preference, cublasLtMatmulHeuristicResult_t& result) {
  const cublasStatus_t status = product.check();
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (declined() == Decline::everything) return CUBLAS_STATUS_NOT_SUPPORTED;
  Algorithm algorithm{kMagic,
                      std::min(kWorkspace, preference.workspace),
                      product.hash(),
                      {preference.alignment_a, preference.alignment_b, preference.alignment_c, preference.alignment_d,
                       alignment_of(product.desc.bias)}};
  result = {};
  std::memcpy(&result.algo, &algorithm, sizeof algorithm);
  result.workspaceSize = algorithm.workspace;
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

// Whether the call keeps the promises that its algorithm was chosen for.
cublasStatus_t check_call(const Product& product, const Arguments& arguments, const cublasLtMatmulAlgo_t* given,
                          const void* workspace, std::size_t workspace_bytes, Algorithm& algorithm) {
  const cublasStatus_t status = product.check();
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (arguments.a == nullptr || arguments.b == nullptr || arguments.d == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  // Reference of cublasLtMatmul(): "in-place matrix multiplication (C == D and Cdesc == Ddesc)".
  if (arguments.c == arguments.d && product.c != product.d) return CUBLAS_STATUS_INVALID_VALUE;
  if ((product.adds_bias() || product.writes_bias()) && product.desc.bias == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (given != nullptr) {
    std::memcpy(&algorithm, given, sizeof algorithm);
    if (algorithm.magic != kMagic || algorithm.problem != product.hash()) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (workspace_bytes < algorithm.workspace) return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace_bytes > 0 && (workspace == nullptr || !is_aligned(workspace, kWorkspaceAlignment))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: algorithms that need more were excluded, others were not.
  const bool uses_bias = product.adds_bias() || product.writes_bias();
  const void* const pointers[] = {arguments.a, arguments.b, arguments.c, arguments.d,
                                  uses_bias ? product.desc.bias : nullptr};
  for (std::size_t i = 0; i < std::size(pointers); ++i) {
    if (!is_aligned(pointers[i], algorithm.alignment[i])) return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return library_open(CUBLAS_STATUS_EXECUTION_FAILED, [&] { return valid(create_object(handle, kHandle, Library{})); });
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return library_close(CUBLAS_STATUS_EXECUTION_FAILED, [&] { return valid(destroy_object<Library>(handle, kHandle)); });
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  return cublaslt([&] { return valid(create_object(desc, kMatmulDesc, MatmulDesc{compute, scale})); });
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  return cublaslt(
      [&] { return set(object<MatmulDesc>(handle, kMatmulDesc), kMatmulDescAttributes, attribute, value, bytes); });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t cols, std::int64_t ld) {
  return cublaslt([&] {
    return valid(create_object(layout, kLayout, Layout{static_cast<std::uint32_t>(type), rows, cols, ld}));
  });
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  return cublaslt([&] { return set(object<Layout>(handle, kLayout), kLayoutAttributes, attribute, value, bytes); });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return cublaslt([&] { return valid(create_object(preference, kPreference, Preference{})); });
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  return cublaslt(
      [&] { return set(object<Preference>(handle, kPreference), kPreferenceAttributes, attribute, value, bytes); });
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return valid(destroy_descriptor<MatmulDesc>(desc, kMatmulDesc));
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return valid(destroy_descriptor<Layout>(layout, kLayout));
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return valid(destroy_descriptor<Preference>(preference, kPreference));
}

// Offers one algorithm. It needs a workspace, and calls must keep the promised alignments. If there is room, a result
// without an algorithm comes first: a result counts only if its `state` is SUCCESS (cublasLtMatmulHeuristicResult_t).
// All of cuBLASLt's algorithms give the same bits at every run, including those that split k
// (cublasLtReductionScheme_t; "Results Reproducibility" in cuBLAS's documentation).
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  return cublaslt([&] {
    if (!is_alive(kHandle, handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    const auto* the_desc = object<MatmulDesc>(desc, kMatmulDesc);
    const Layout *la = object<Layout>(a, kLayout), *lb = object<Layout>(b, kLayout), *lc = object<Layout>(c, kLayout),
                 *ld = object<Layout>(d, kLayout);
    const auto* asked = object<Preference>(preference, kPreference);
    if (!the_desc || !la || !lb || !lc || !ld || !asked || wanted < 1 || !results || !count) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    const int before = wanted > 1 ? 1 : 0;
    const cublasStatus_t status = choose({*the_desc, *la, *lb, *lc, *ld}, *asked, results[before]);
    *count = status == CUBLAS_STATUS_SUCCESS ? before + 1 : 0;
    if (before < *count) results[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
    return status;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* A,
                              cublasLtMatrixLayout_t a, const void* B, cublasLtMatrixLayout_t b, const void* beta,
                              const void* C, cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  return cublaslt([&] {
    const auto* library = object<Library>(handle, kHandle);
    if (library == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    const auto* the_desc = object<MatmulDesc>(desc, kMatmulDesc);
    const Layout *la = object<Layout>(a, kLayout), *lb = object<Layout>(b, kLayout), *lc = object<Layout>(c, kLayout),
                 *ld = object<Layout>(d, kLayout);
    if (!the_desc || !la || !lb || !lc || !ld || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
    const Product product{*the_desc, *la, *lb, *lc, *ld};
    const Arguments arguments{A, B, C, D, *static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
    // Reference of cublasLtMatmul(): without an algorithm, it chooses one with the default preferences.
    Algorithm algorithm{kMagic, 0, 0, {}};
    std::fill(std::begin(algorithm.alignment), std::end(algorithm.alignment), kDefaultAlignment);
    const cublasStatus_t status = check_call(product, arguments, algo, workspace, workspace_bytes, algorithm);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    submit_with(library->memory, stream, kMatmul, [product, arguments, workspace, bytes = algorithm.workspace] {
      Operands operands(kMatmul);
      scribble(operands, workspace, bytes);
      multiply_batch(product, arguments, operands);
    });
    return CUBLAS_STATUS_SUCCESS;
  });
}

const char* cublasLtGetStatusName(cublasStatus_t status) { return describe(status).name; }

const char* cublasLtGetStatusString(cublasStatus_t status) { return describe(status).text; }
}
