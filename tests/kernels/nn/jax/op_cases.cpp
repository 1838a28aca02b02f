#include <giro/kernels/nn/transformer.h>

#include "tests/kernels/nn/jax/cases.h"

namespace giro::nn {
namespace {

std::vector<Case> products() {
  const auto einsums = [](std::string equation, std::vector<Input> inputs) {
    return op("einsum " + equation, std::move(inputs), [equation](const Vars& in) { return einsum(equation, in); });
  };
  return {
      op("dense of a vector", {{"x", {5}}, {"w", {5, 3}}, {"b", {3}}},
         [](const Vars& in) { return dense(in[0], in[1], in[2]); }),
      op("dense of rows, gelu", {{"x", {7, 5}}, {"w", {5, 3}}, {"b", {3}}},
         [](const Vars& in) { return dense(in[0], in[1], in[2], Activation::gelu); }),
      op("dense of sequences", {{"x", {2, 3, 5}}, {"w", {5, 9}}},
         [](const Vars& in) { return dense(in[0], in[1], Var()); }),
      op("matmul", {{"a", {5, 17}}, {"b", {17, 3}}}, [](const Vars& in) { return matmul(in[0], in[1]); }),
      op("matmul of a vector", {{"a", {3, 5, 7}}, {"b", {7}}}, [](const Vars& in) { return matmul(in[0], in[1]); }),
      op("matmul, batched", {{"a", {3, 5, 7}}, {"b", {3, 7, 2}}}, [](const Vars& in) { return matmul(in[0], in[1]); }),
      op("matmul, broadcast", {{"a", {2, 1, 3, 5}}, {"b", {3, 5, 4}}},
         [](const Vars& in) { return matmul(in[0], in[1]); }),
      op("matmul, transposed", {{"a", {3, 7, 5}}, {"b", {2, 7}}},
         [](const Vars& in) { return matmul(in[0], in[1], {.transpose_a = true, .transpose_b = true}); }),
      einsums("bthd,bshd->bhts", {{"a", {2, 5, 3, 4}}, {"b", {2, 7, 3, 4}}}),
      einsums("ij,jk,kl->il", {{"a", {3, 5}}, {"b", {5, 7}}, {"c", {7, 2}}}),
      einsums("...ij,...kj->...ik", {{"a", {2, 1, 3, 5}}, {"b", {3, 4, 5}}}),
      einsums("bi,bi->b", {{"a", {3, 7}}, {"b", {3, 7}}}),
      einsums("i,j->ij", {{"a", {5}}, {"b", {3}}}),
      einsums("abc,dc->bd", {{"a", {3, 2, 5}}, {"b", {7, 5}}}),
  };
}

std::vector<Case> convolutions() {
  const auto conv = [](std::string name, const Shape& x, const Shape& w, const Conv2dOptions& options) {
    return op("conv2d, " + name, {{"x", x}, {"w", w}, {"b", {w.begin()[0]}}},
              [options](const Vars& in) { return conv2d(in[0], in[1], in[2], options); });
  };
  const auto transposed = [](std::string name, const Shape& x, const Shape& w, std::int64_t channels,
                             const Conv2dOptions& options, std::array<std::int64_t, 2> more) {
    return op("conv2d_transpose, " + name, {{"x", x}, {"w", w}, {"b", {channels}}},
              [=](const Vars& in) { return conv2d_transpose(in[0], in[1], in[2], options, more); });
  };
  return {
      conv("valid", {2, 5, 6, 3}, {4, 3, 2, 3}, {}),
      conv("strided", {2, 7, 6, 3}, {5, 3, 3, 3}, {.stride = {2, 3}, .pad_before = {1, 0}, .pad_after = {0, 2}}),
      conv("same padding", {1, 7, 6, 2}, {3, 3, 4, 2}, same_padding(7, 6, {3, 4}, {2, 2})),
      conv("groups", {2, 5, 4, 6}, {4, 3, 3, 3}, {.pad_before = {1, 1}, .pad_after = {1, 1}, .groups = 2}),
      conv("depthwise", {1, 5, 5, 3}, {3, 3, 3, 1}, {.groups = 3}),
      conv("dilated", {1, 9, 7, 2}, {3, 3, 2, 2}, {.dilation = {2, 3}}),
      transposed("strided", {2, 3, 4, 5}, {5, 3, 3, 2}, 2,
                 {.stride = {2, 2}, .pad_before = {1, 1}, .pad_after = {1, 1}}, {1, 0}),
      transposed("groups", {1, 4, 3, 4}, {4, 2, 3, 3}, 6, {.groups = 2}, {0, 0}),
      op("conv1d", {{"x", {2, 9, 3}}, {"w", {4, 3, 3}}, {"b", {4}}},
         [](const Vars& in) { return conv1d(in[0], in[1], in[2], {.stride = 2, .pad_before = 4, .dilation = 2}); }),
      op("avg_pool", {{"x", {2, 7, 6, 3}}},
         [](const Vars& in) {
           return avg_pool(in[0], {.window = {3, 2}, .stride = {2, 2}});
         }),
      op(
          "max_pool", {{"x", {2, 7, 6, 3}}},
          [](const Vars& in) {
            return max_pool(in[0], {.window = {3, 2}, .stride = {2, 2}});
          },
          false),
  };
}

std::vector<Case> elementwise() {
  const auto unary = [](std::string name, auto f) {
    return op(std::move(name), {{"x", {5, 7}, -4, 4}}, [f](const Vars& in) { return f(in[0]); });
  };
  const std::vector<Input> pair{{"a", {3, 1, 5}, 0.5, 2}, {"b", {4, 5}, 0.5, 2}};
  const auto binary = [&](std::string name, auto f) {
    return op(std::move(name), pair, [f](const Vars& in) { return f(in[0], in[1]); });
  };
  return {
      unary("gelu", [](const Var& x) { return gelu(x); }),
      unary("gelu_erf", [](const Var& x) { return gelu_erf(x); }),
      unary("silu", [](const Var& x) { return silu(x); }),
      unary("softplus", [](const Var& x) { return softplus(x); }),
      unary("relu", [](const Var& x) { return relu(x); }),
      unary("tanh", [](const Var& x) { return tanh(x); }),
      unary("sigmoid", [](const Var& x) { return sigmoid(x); }),
      unary("erf", [](const Var& x) { return erf(x); }),
      unary("expm1", [](const Var& x) { return expm1(x); }),
      unary("sin times cos", [](const Var& x) { return sin(x) * cos(x); }),
      binary("divide", [](const Var& a, const Var& b) { return a / b; }),
      binary("power", [](const Var& a, const Var& b) { return power(a, b); }),
      binary("xlogy", [](const Var& a, const Var& b) { return xlogy(a, b); }),
      binary("maximum", [](const Var& a, const Var& b) { return maximum(a, b); }),
      op("clamp", {{"x", {5, 7}, -4, 4}}, [](const Vars& in) { return clamp(in[0], -1.5, 2.5); }),
      op("where", {{"condition", {3, 1}, 0, 1, DType::boolean}, {"a", {3, 5}}, {"b", {5}}},
         [](const Vars& in) { return where(in[0], in[1], in[2]); }),
  };
}

std::vector<Case> reductions() {
  const auto of = [](std::string name, auto f, bool has_bf16 = true) {
    return op(
        std::move(name), {{"x", {3, 5, 4}, -2, 2}}, [f](const Vars& in) { return f(in[0]); }, has_bf16);
  };
  return {
      of("softmax", [](const Var& x) { return softmax(x); }),
      of("softmax over two axes",
         [](const Var& x) {
           return softmax(x, {0, 2});
         }),
      of("log_softmax", [](const Var& x) { return log_softmax(x); }),
      of("logsumexp", [](const Var& x) { return logsumexp(x, {1}); }),
      of("sum",
         [](const Var& x) {
           return sum(x, Axes({0, 1}).dropped());
         }),
      of("mean", [](const Var& x) { return mean(x, {-1}); }),
      of("variance",
         [](const Var& x) {
           return variance(x, Axes({0, 2}).dropped());
         }),
      of("product", [](const Var& x) { return product(x, {1}); }),
      of(
          "max", [](const Var& x) { return max(x, {0}); }, false),
      of(
          "argmin", [](const Var& x) { return argmin(x, Axes({1}).dropped()); }, false),
      of("cumulative_sum", [](const Var& x) { return cumulative_sum(x, 1); }),
      of("cumulative_max", [](const Var& x) { return cumulative_max(x, 1); }),
      of("cumulative_product", [](const Var& x) { return cumulative_product(x, -1); }),
      of("sort", [](const Var& x) { return sort(x, 1); }),
      of("argsort", [](const Var& x) { return argsort(x); }),
      of("top_k",
         [](const Var& x) {
           const TopK found = top_k(x, 3);
           return Vars{found.values, found.indices};
         }),
  };
}

std::vector<Case> indexing() {
  return {
      op("take", {{"x", {3, 5, 2}}, {"indices", {2, 3}, 0, 4, DType::i32}},
         [](const Vars& in) { return take(in[0], in[1], 1); }),
      op("embedding", {{"ids", {3, 5}, 0, 6, DType::i64}, {"table", {7, 4}}},
         [](const Vars& in) { return embedding(in[0], in[1]); }),
      op("take_along_axis", {{"x", {3, 5, 2}}, {"indices", {3, 4, 2}, 0, 4, DType::u8}},
         [](const Vars& in) { return take_along_axis(in[0], in[1], 1); }),
      op("scatter_add", {{"x", {5, 3}}, {"indices", {2, 4}, 0, 4, DType::i32}, {"updates", {2, 4, 3}}},
         [](const Vars& in) { return scatter_add(in[0], in[1], in[2]); }),
      op(
          "one_hot", {{"indices", {3, 5}, 0, 8, DType::i32}}, [](const Vars& in) { return one_hot(in[0], 7); }, false),
      op("concatenate", {{"a", {3, 2}}, {"b", {3, 5}}, {"c", {3, 1}}},
         [](const Vars& in) { return concatenate(in, 1); }),
      op("split", {{"x", {3, 7}}},
         [](const Vars& in) {
           return split(in[0], std::vector<std::int64_t>{2, 4, 1}, 1);
         }),
      op("stack", {{"a", {3, 2}}, {"b", {3, 2}}}, [](const Vars& in) { return stack(in, 1); }),
      op("pad", {{"x", {3, 5}}},
         [](const Vars& in) { return pad(in[0], {.axis = 1, .before = 2, .after = 1, .value = -3}); }),
      op("slice", {{"x", {3, 9}}},
         [](const Vars& in) { return slice(in[0], {.axis = 1, .begin = 1, .end = 8, .step = 3}); }),
      op("transpose", {{"x", {2, 3, 5}}},
         [](const Vars& in) {
           return transpose(in[0], {2, 0, 1});
         }),
      op("flip", {{"x", {2, 3, 5}}},
         [](const Vars& in) {
           return flip(in[0], {0, 2});
         }),
      op("broadcast_to", {{"x", {3, 1}}},
         [](const Vars& in) {
           return broadcast_to(in[0], {2, 3, 5});
         }),
  };
}

std::vector<Case> attention() {
  const auto attend = [](std::string name, std::int64_t heads, std::int64_t kv_heads, std::vector<Input> more,
                         auto options) {
    std::vector<Input> inputs{
        {"query", {2, 5, heads, 4}, -2, 2}, {"key", {2, 7, kv_heads, 4}, -2, 2}, {"value", {2, 7, kv_heads, 4}}};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return op("attention, " + name, std::move(inputs),
              [options](const Vars& in) { return dot_product_attention(in[0], in[1], in[2], options(in)); });
  };
  return {
      attend("plain", 3, 3, {}, [](const Vars&) { return AttentionOptions{}; }),
      attend("causal, scaled", 3, 3, {},
             [](const Vars&) { return AttentionOptions{.is_causal = true, .scale = 0.25}; }),
      attend("masked", 3, 3, {{"mask", {2, 1, 5, 7}, 0, 1, DType::boolean}},
             [](const Vars& in) { return AttentionOptions{.mask = in[3]}; }),
      attend("grouped queries", 6, 2, {}, [](const Vars&) { return AttentionOptions{}; }),
      attend("lengths", 4, 2, {{"lengths", {2}, 2, 6, DType::i32}},
             [](const Vars& in) { return AttentionOptions{.key_lengths = in[3]}; }),
      op("rotary_embedding", {{"x", {2, 5, 3, 6}}, {"positions", {5}, 0, 40, DType::i32}},
         [](const Vars& in) { return rotary_embedding(in[0], in[1]); }),
  };
}

}  // namespace

std::vector<Case> op_cases() {
  std::vector<Case> all;
  for (const auto& cases : {products(), convolutions(), elementwise(), reductions(), indexing(), attention()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace giro::nn
