#include "kernels/cuda/matmul.h"

#include <algorithm>
#include <array>

#include "kernels/cuda/alignment.h"
#include "kernels/ops.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/handle.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

constexpr std::size_t kMaxWorkspace = std::size_t{32} << 20;  // NVIDIA's recommendation for Hopper
constexpr int kCandidates = 8;

const CublasLt& cublaslt() { return CublasLt::instance(); }

using Description = Handle<cublasLtMatmulDesc_t, [](auto made) { return cublaslt().destroy_description(made); }>;
using Layout = Handle<cublasLtMatrixLayout_t, [](auto made) { return cublaslt().destroy_layout(made); }>;
using Preference = Handle<cublasLtMatmulPreference_t, [](auto made) { return cublaslt().destroy_preference(made); }>;

// cuBLASLt's matrices are column-major: for it, a row-major matrix is the transpose. So it computes out^T = op(b)^T
// op(a)^T, with b as its first operand.
struct MatmulPlan {
  Description description;
  Layout a, b, out;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;  // bytes
  bool found = false;
};

template <class T>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublaslt().set_of_description(description, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublaslt().set_of_preference(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

cudaDataType_t data_type(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

template <class T>
void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  check(cublaslt().set_of_layout(layout, attribute, &value, sizeof value), "cublasLtMatrixLayoutSetAttribute");
}

Layout layout(const Tensor& of, std::int64_t batch, std::int64_t stride) {
  const std::int64_t rows = of.shape()[-2], columns = of.shape()[-1];
  Layout made;
  check(cublaslt().create_layout(made.out(), data_type(of.dtype()), static_cast<std::uint64_t>(columns),
                                 static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  if (batch > 1) {
    set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  return made;
}

MatmulPlan make_plan(const Matmul& matmul, cublasLtHandle_t handle) {
  MatmulPlan plan;
  const bool tf32 = matmul.math == MathMode::tf32 && matmul.a.dtype() == DType::f32;
  check(cublaslt().create_description(plan.description.out(), tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                      CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, operation(matmul.transpose_b));
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, operation(matmul.transpose_a));
  set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, matmul.epilogue);
  // cuBLASLt has no preference attribute for the bias's alignment but derives it from this address, which it does not
  // dereference here. try_matmul() accepts only aligned biases, so this address stands for all of them.
  if (matmul.bias) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{kMaxAlignment});
  plan.a = layout(matmul.a, matmul.batch, matmul.a_stride);
  plan.b = layout(matmul.b, matmul.batch, matmul.b_stride);
  plan.out = layout(matmul.out, matmul.batch, matmul.rows() * matmul.columns());

  Preference preference;
  check(cublaslt().create_preference(preference.out()), "cublasLtMatmulPreferenceCreate");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(matmul.b.raw()));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(matmul.a.raw()));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(matmul.out.raw()));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(matmul.out.raw()));

  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int count = 0;
  const cublasStatus_t status = cublaslt().heuristic(handle, plan.description, plan.b, plan.a, plan.out, plan.out,
                                                     preference, kCandidates, results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return plan;
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < count && !plan.found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    plan.algorithm = result.algo;
    plan.workspace = result.workspaceSize;
    plan.found = true;
  }
  return plan;
}

}  // namespace

bool try_matmul(const Matmul& matmul, const Stream& stream) {
  if (matmul.bias && alignment_of(matmul.bias.raw()) < kMaxAlignment) return false;
  if (matmul.bias && matmul.bias.dtype() != matmul.out.dtype()) return false;
  CudaStream& owner = cuda_stream(stream);
  const auto make = [&] { return make_plan(matmul, owner.cublaslt()); };
  const MatmulPlan& plan = owner.plan<MatmulPlan>(
      {matmul.rows(), matmul.columns(), matmul.terms(), matmul.batch, matmul.a_stride, matmul.b_stride,
       matmul.transpose_a, matmul.transpose_b, matmul.epilogue, alignment_of(matmul.a.raw()),
       alignment_of(matmul.b.raw()), alignment_of(matmul.out.raw()), static_cast<int>(matmul.a.dtype()),
       static_cast<int>(matmul.out.dtype()), static_cast<int>(matmul.math)},
      make);
  if (!plan.found) return false;
  if (matmul.bias) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, matmul.bias.raw());
  // From the stream's arena, so that a recorded graph owns it.
  const Buffer workspace = plan.workspace > 0 ? stream.allocate(plan.workspace) : Buffer();
  const float alpha = 1.0f, beta = matmul.adds ? 1.0f : 0.0f;
  check(cublaslt().matmul(owner.cublaslt(), plan.description, &alpha, matmul.b.raw(), plan.b, matmul.a.raw(), plan.a,
                          &beta, matmul.out.raw(), plan.out, matmul.out.raw(), plan.out, &plan.algorithm,
                          workspace.data(), plan.workspace, owner.handle()),
        "cublasLtMatmul");
  return true;
}

void run(const ops::Matmul& op, const Stream& stream) {
  if (op.out.count() == 0) return;
  const std::int64_t terms = op.a.shape()[op.options.transpose_a ? -2 : -1];
  if (terms == 0) return stream.fill(op.out.raw(), 0, op.out.bytes());
  constexpr std::int64_t kMaxBatch = 65535;  // libraries may put the batch on a grid axis with this limit
  for (const auto& [out, a, b] : strided_batches(op)) {
    const bool a_moves = a.shape()[0] > 1, b_moves = b.shape()[0] > 1;
    for (std::int64_t begin = 0; begin < out.shape()[0]; begin += kMaxBatch) {
      const std::int64_t end = std::min(begin + kMaxBatch, out.shape()[0]);
      const Matmul product{.out = out.rows(begin, end),
                           .a = a_moves ? a.rows(begin, end) : a,
                           .b = b_moves ? b.rows(begin, end) : b,
                           .transpose_a = op.options.transpose_a,
                           .transpose_b = op.options.transpose_b,
                           .math = op.math,
                           .batch = end - begin,
                           .a_stride = a_moves ? a.shape()[1] * a.shape()[2] : 0,
                           .b_stride = b_moves ? b.shape()[1] * b.shape()[2] : 0};
      if (!try_matmul(product, stream)) tiled_matmul(product, stream);
    }
  }
}

}  // namespace giro::cuda
