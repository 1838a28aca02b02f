#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <giro/loop/time/elapsed.h>
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

// The name of a value: a path, "train/loss". The tag of a log entry is "<collection>/<name>".
class Tag {
 public:
  template <std::convertible_to<std::string_view> T>
  Tag(const T& path) : path_(std::string_view(path)) {}
  static Tag of_entry(std::string_view collection, std::string_view name);

  const std::string& path() const noexcept { return path_; }
  // The parts of a log entry's tag. The collection of another tag is empty, and its name is the path.
  std::string_view collection() const& noexcept {
    return std::string_view(path_).substr(0, name_begin_ > 0 ? name_begin_ - 1 : 0);
  }
  std::string_view name() const& noexcept { return std::string_view(path_).substr(name_begin_); }
  std::string_view collection() const&& = delete;
  std::string_view name() const&& = delete;
  friend bool operator==(const Tag&, const Tag&) = default;
  friend auto operator<=>(const Tag&, const Tag&) = default;

 private:
  std::string path_;
  std::size_t name_begin_ = 0;
};

// Values of one kind by tag, in display order, that a MetricWriter writes together.
struct MetricRecord {
  template <class T>
  using Tagged = std::vector<std::pair<Tag, T>>;
  using Scalars = Tagged<double>;
  using Arrays = Tagged<HostArray>;
  using Texts = Tagged<std::string>;
  using HParams = Tagged<HParam>;
  struct Images : Arrays {};
  struct Histograms : Arrays {};

  // elapsed.steps is the step. The other fields are set in a record of the logs of a loop.
  Elapsed elapsed;
  std::variant<Scalars, Images, Histograms, Texts, HParams> values;
};

// The destination of metrics, like CLU's MetricWriter. The caller decides what `step` counts; it need not increase.
//
//   writer.write_scalars(100, {{"loss", 0.25}, {"accuracy", 0.9}});
//
// Each call may throw Error(io), and Error(invalid_argument) for an empty tag, a negative step or a closed writer. A
// class of your own overrides write and, if it buffers, flush and close.
class MetricWriter {
 public:
  using Scalars = MetricRecord::Scalars;
  using Arrays = MetricRecord::Arrays;
  using Texts = MetricRecord::Texts;
  using HParams = MetricRecord::HParams;

  virtual ~MetricWriter() = default;

  virtual void write(const MetricRecord& record) = 0;
  // Makes everything written so far visible to readers.
  virtual void flush() {}
  // Flushes, and ends writing. Closing twice is allowed. Call this to see errors: destructors do not throw.
  virtual void close() { flush(); }

  // Each writes a record of one kind. Any numbers, including NaN and infinity.
  void write_scalars(std::int64_t step, Scalars scalars);
  // One image (height, width, channels) or several (n, height, width, channels), with 1 (grey), 3 (RGB) or 4 (RGBA)
  // channels: u8, or floating point from 0 to 1. Errors: shape_mismatch, dtype_mismatch.
  void write_images(std::int64_t step, Arrays images);
  // The distribution of an array's elements, of any shape and dtype.
  void write_histograms(std::int64_t step, Arrays arrays);
  // Markdown.
  void write_texts(std::int64_t step, Texts texts);
  // The run's hyperparameters. Once per run.
  void write_hparams(HParams hparams);
};

}  // namespace giro
