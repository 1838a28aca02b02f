#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/runtime/error.h>

namespace giro::test {

// A state of a model of rows of 3 numbers, and such rows.
inline TrainState state_of(const nn::Layer& model, const DeviceContext& context = Device::cpu()) {
  return TrainState::create(model, optim::sgd(0.1), {.inputs = {{"x", DType::f32, {2, 3}}}, .context = context});
}
inline HostArray array() { return {std::vector<float>(6, 1.0f), {2, 3}}; }
inline Dataset rows() { return Dataset(Dataset::Arrays{{"x", array()}}).repeat().batch(2); }
inline Batch batch() { return Batch(Batch::Arrays{{"x", array()}}); }

// A mistake in a program, which ends in an Error.
struct Misuse {
  const char* name;
  std::vector<std::string> words;  // in the error; none: it is no mistake after all
  std::function<void()> make;
};

// Makes each. An Error is one line with all of the words.
inline void expect_errors(const std::vector<Misuse>& misuses) {
  for (const Misuse& misuse : misuses) {
    SCOPED_TRACE(misuse.name);
    std::string message;
    try {
      misuse.make();
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_EQ(message.empty(), misuse.words.empty()) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& word : misuse.words) {
      EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
    }
  }
}

}  // namespace giro::test
