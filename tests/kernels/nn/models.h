#pragma once

// The models of the samples, and small images to train them on.

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <giro/kernels/nn/layers.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/data/dataset.h>

namespace giro::test {

inline nn::Layer linear_model() { return nn::sequential(nn::scale(1 / 255.f), nn::flatten(), nn::dense(10)); }

inline nn::Layer cnn_model() {
  return nn::sequential(nn::scale(1 / 255.f),                                    //
                        nn::conv(32, {3, 3}, {.activation = Activation::relu}),  //
                        nn::avg_pool({2, 2}),                                    //
                        nn::conv(64, {3, 3}, {.activation = Activation::relu}),  //
                        nn::avg_pool({2, 2}),                                    //
                        nn::flatten(),                                           //
                        nn::dense(256, {.activation = Activation::relu}),        //
                        nn::dense(10));
}

// Images u8 (count, size, size, 1) and labels u8 (count,) below 10, the same on every run. Rows of one label share a
// pattern under noise, so there is something to learn.
struct Images {
  std::int64_t count, size;
  std::vector<std::uint8_t> pixels, labels;

  Images(std::int64_t count, std::int64_t size) : count(count), size(size) {
    std::mt19937 engine(20'240'301);
    const auto area = static_cast<std::size_t>(size * size);
    std::vector<std::uint8_t> patterns(10 * area);
    for (std::uint8_t& value : patterns) value = static_cast<std::uint8_t>(engine() % 192);
    for (std::int64_t i = 0; i < count; ++i) {
      labels.push_back(static_cast<std::uint8_t>(engine() % 10));
      for (std::size_t j = 0; j < area; ++j) {
        pixels.push_back(static_cast<std::uint8_t>(patterns[labels.back() * area + j] + engine() % 64));
      }
    }
  }
};

inline Dataset image_dataset(std::int64_t count, std::int64_t size) {
  const auto images = std::make_shared<Images>(count, size);
  const Tensor pixels(images->pixels.data(), DType::u8, {count, size, size, 1}, Device::cpu());
  const Tensor labels(images->labels.data(), DType::u8, {count}, Device::cpu());
  return Dataset({{"image", pixels}, {"label", labels}}, images);
}

}  // namespace giro::test
