#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <giro/runtime/host_array.h>

namespace giro {

// A hyperparameter: a bool, a number or a text.
struct HParam {
  std::variant<bool, double, std::string> value;

  HParam(bool flag);
  HParam(double number);
  template <class T>
    requires std::is_arithmetic_v<T>
  HParam(T number) : HParam(static_cast<double>(number)) {}
  HParam(std::string text);
  template <std::convertible_to<std::string_view> T>
  HParam(const T& text) : HParam(std::string(std::string_view(text))) {}
};

// The destination of metrics, like CLU's MetricWriter: values by tag, in display order. A tag is a path, "train/loss".
// The caller decides what `step` counts; it need not increase.
//
//   writer.write_scalars(100, {{"loss", 0.25}, {"accuracy", 0.9}});
//
// Each call may throw Error(io), and Error(invalid_argument) for an empty tag, a negative step or a closed writer.
class MetricWriter {
 public:
  using Scalars = std::vector<std::pair<std::string, double>>;
  using Arrays = std::vector<std::pair<std::string, HostArray>>;
  using Texts = std::vector<std::pair<std::string, std::string>>;
  using HParams = std::vector<std::pair<std::string, HParam>>;

  virtual ~MetricWriter() = default;

  // Any numbers, including NaN and infinity.
  virtual void write_scalars(std::int64_t step, const Scalars& scalars) = 0;
  // One image (height, width, channels) or several (n, height, width, channels), with 1 (grey), 3 (RGB) or 4 (RGBA)
  // channels: u8, or floating point from 0 to 1. Errors: shape_mismatch, dtype_mismatch.
  virtual void write_images(std::int64_t step, const Arrays& images) = 0;
  // The distribution of an array's elements, of any shape and dtype.
  virtual void write_histograms(std::int64_t step, const Arrays& arrays) = 0;
  // Markdown.
  virtual void write_texts(std::int64_t step, const Texts& texts) = 0;
  // The run's hyperparameters. Once per run.
  virtual void write_hparams(const HParams& hparams) = 0;
  // Makes everything written so far visible to readers.
  virtual void flush() = 0;
  // Flushes, and ends writing. Closing twice is allowed. Call this to see errors: destructors do not throw.
  virtual void close() = 0;
};

}  // namespace giro
