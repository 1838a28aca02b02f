#pragma once

#include <cstdint>
#include <vector>

#include <giro/kernels/nn/initializers.h>
#include <giro/kernels/nn/layer.h>

namespace giro::nn {

// Recurrent layers over x (B, T, I), which return the hidden states (B, T, features). Errors: shape_mismatch.

struct RecurrentOptions {
  bool reverse = false;  // from the last step to the first
  // Whether a sequence continues where the same row of the previous batch ended. If so, the hidden state is the
  // variable carry/h (B, features), for an LSTM also carry/c, zero in a new state. Training and decoding update it,
  // evaluation only starts from it; TrainState::reset("carry") sets it to zero. If false, each sequence starts from
  // zero. Error(unsupported) on several ranks.
  bool carry = false;
  bool use_bias = true;
  Initializer kernel_init = lecun_normal();
  Initializer recurrent_init = lecun_normal();
  Initializer bias_init = zeros();
};

// A cell uses the same parameters each time it is called in one scope, step after step; two cells need a child each.
//
// The state that a cell carries from step to step: {h} (B, features), for an LSTM {h, c}.
using Carry = std::vector<Var>;

// One step of a long short-term memory. Hochreiter and Schmidhuber, 1997; with forget gates, Gers et al., 2000.
// i, f, g, o are the parts, in this order, of x kernel + h recurrent_kernel + bias:
//   c' = sigmoid(f) c + sigmoid(i) tanh(g),  h' = sigmoid(o) tanh(c')
// Parameters: kernel (I, 4 features), recurrent_kernel (features, 4 features), bias (4 features).
struct LstmCell {
  std::int64_t features;
  RecurrentOptions options = {};

  // The new carry for x (B, I); its first value is the output.
  Carry operator()(Scope& s, const Carry& carry, const Var& x) const;
};

// One step of a gated recurrent unit. Cho et al., 2014, with the reset gate applied after the product, as in cuDNN and
// PyTorch. r, z, n are the parts of x kernel + bias, and of h recurrent_kernel:
//   n = tanh(n_x + sigmoid(r) (n_h + recurrent_bias)),  h' = (1 - sigmoid(z)) n + sigmoid(z) h
// Parameters: kernel (I, 3 features), recurrent_kernel (features, 3 features), bias (3 features), recurrent_bias
// (features).
struct GruCell {
  std::int64_t features;
  RecurrentOptions options = {};

  Carry operator()(Scope& s, const Carry& carry, const Var& x) const;
};

// The cell over a sequence. All steps share one product with the inputs.
Layer lstm(std::int64_t features, const RecurrentOptions& options = {});
Layer gru(std::int64_t features, const RecurrentOptions& options = {});

}  // namespace giro::nn
