#include <giro/callbacks/summary_writer.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/loop/time/clock.h>
#include <giro/runtime/error.h>

#include "callbacks/internal/event_file.h"
#include "callbacks/internal/histogram_buckets.h"
#include "callbacks/internal/png_image.h"
#include "callbacks/internal/summary_values.h"
#include "runtime/internal/elements.h"
#include "runtime/internal/text.h"

namespace giro {
namespace {

using detail::ProtoMessage;

bool is_utf8(const std::string& text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return true;
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

struct ImageSizes {
  std::int64_t count, height, width, channels;
};

// Converts to 8 bits per channel.
std::vector<std::uint8_t> to_bytes(const Tensor& tensor) {
  return detail::with_elements(tensor, [&](const auto* elements) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tensor.count()));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if constexpr (std::is_same_v<decltype(elements), const std::uint8_t*>) {
        bytes[i] = elements[i];
      } else {
        const auto value = static_cast<float>(elements[i]);
        bytes[i] = value > 0 ? static_cast<std::uint8_t>(std::lround(std::min(value, 1.f) * 255)) : std::uint8_t{0};
      }
    }
    return bytes;
  });
}

}  // namespace

struct SummaryWriter::Impl {
  Impl(const std::string& dir, const SummaryWriterOptions& options)
      : dir(dir), buckets(options.histogram_buckets), file(std::in_place, dir, options.files, options.flush_interval) {}

  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, fmt::format("tensorboard '{}': {}", dir, what));
  }
  detail::EventFile& open_file() {
    if (!file) fail(ErrorCode::invalid_argument, "the writer is closed");
    return *file;
  }
  void check_step(std::int64_t step) const {
    if (step < 0) fail(ErrorCode::invalid_argument, fmt::format("the step is {}, expected at least 0", step));
  }
  void check_tag(const std::string& tag) const {
    if (tag.empty()) fail(ErrorCode::invalid_argument, "a tag is empty");
    if (!is_utf8(tag)) fail(ErrorCode::invalid_argument, fmt::format("the tag {} is not UTF-8", printable(tag)));
  }

  // Writes one event with all values; add(tag, value) adds each.
  template <class Values, class F>
  void write(std::int64_t step, const Values& values, F&& add) {
    detail::EventFile& events = open_file();
    check_step(step);
    summary.clear();
    for (const auto& [tag, value] : values) {
      check_tag(tag);
      add(tag, value);
    }
    if (!summary.empty()) events.add_summary(Clock::now(), step, summary);
  }

  ImageSizes image_sizes(const std::string& tag, const HostArray& array) const {
    const DType dtype = array.dtype();
    if (dtype != DType::u8 && !is_floating(dtype)) {
      fail(ErrorCode::dtype_mismatch,
           fmt::format("image '{}' is {}, expected u8 or a floating-point type", tag, name_of(dtype)));
    }
    const Shape& shape = array.shape();
    const std::size_t rank = shape.rank();
    const bool has_channels = rank > 0 && (shape[-1] == 1 || shape[-1] == 3 || shape[-1] == 4);
    const bool has_pixels = std::all_of(shape.begin() + (rank == 4 ? 1 : 0), shape.end(), [](auto n) { return n > 0; });
    if ((rank != 3 && rank != 4) || !has_channels || !has_pixels) {
      fail(ErrorCode::shape_mismatch,
           fmt::format("image '{}' has the shape {}, expected (height, width, channels) or (n, height, width, "
                       "channels) with 1, 3 or 4 channels",
                       tag, to_string(shape)));
    }
    return {rank == 4 ? shape[0] : 1, shape[-3], shape[-2], shape[-1]};
  }

  std::string dir;
  std::int64_t buckets;
  std::optional<detail::EventFile> file;  // empty once closed
  ProtoMessage summary;
};

SummaryWriter::SummaryWriter(const std::string& dir, const SummaryWriterOptions& options) {
  const auto reject = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, fmt::format("tensorboard '{}': {}", dir, what));
  };
  if (dir.empty()) throw Error(ErrorCode::invalid_argument, "tensorboard: the directory's name is empty");
  if (!(options.flush_interval >= 0)) {
    reject(fmt::format("flush_interval is {}, expected at least 0", options.flush_interval));
  }
  if (options.histogram_buckets < 1) {
    reject(fmt::format("histogram_buckets is {}, expected at least 1", options.histogram_buckets));
  }
  if (options.purge_step && *options.purge_step < 0) {
    reject(fmt::format("purge_step is {}, expected at least 0", *options.purge_step));
  }
  if (options.resume && !options.purge_step) reject("resume without purge_step, the step from which the run continues");
  impl_ = std::make_shared<Impl>(dir, options);
  if (options.purge_step) purge(*options.purge_step, options.resume);
}
SummaryWriter::SummaryWriter(SummaryWriter&&) noexcept = default;
SummaryWriter& SummaryWriter::operator=(SummaryWriter&&) noexcept = default;

void SummaryWriter::purge(std::int64_t step, bool resume) {
  detail::EventFile& events = impl_->open_file();
  if (resume) events.remove_from(step);
  events.add_session_start(Clock::now(), step);
}

SummaryWriter::~SummaryWriter() {
  try {
    if (impl_) close();
  } catch (...) {
    // close() reports errors; destructors do not throw.
  }
}

void SummaryWriter::write_scalars(std::int64_t step, const Scalars& scalars) {
  impl_->write(step, scalars,
               [&](const std::string& tag, double value) { detail::add_scalar(impl_->summary, tag, value); });
}

void SummaryWriter::write_images(std::int64_t step, const Arrays& images) {
  impl_->write(step, images, [&](const std::string& tag, const HostArray& array) {
    const ImageSizes sizes = impl_->image_sizes(tag, array);
    const std::vector<std::uint8_t> pixels = to_bytes(array.tensor());
    const std::int64_t bytes = sizes.height * sizes.width * sizes.channels;
    std::vector<std::string> files;
    for (std::int64_t i = 0; i < sizes.count; ++i) {
      files.push_back(detail::encode_png(pixels.data() + i * bytes, sizes.height, sizes.width, sizes.channels));
    }
    detail::add_images(impl_->summary, tag, sizes.width, sizes.height, files);
  });
}

void SummaryWriter::write_histograms(std::int64_t step, const Arrays& arrays) {
  impl_->write(step, arrays, [&](const std::string& tag, const HostArray& array) {
    const detail::HistogramBuckets buckets = detail::histogram_buckets(array.tensor(), impl_->buckets);
    detail::add_histogram(impl_->summary, tag, buckets.rows);
    if (buckets.not_finite > 0) {
      detail::add_scalar(impl_->summary, tag + "/not_finite", static_cast<double>(buckets.not_finite));
    }
  });
}

void SummaryWriter::write_texts(std::int64_t step, const Texts& texts) {
  impl_->write(step, texts, [&](const std::string& tag, const std::string& text) {
    if (!is_utf8(text)) impl_->fail(ErrorCode::invalid_argument, fmt::format("the text '{}' is not UTF-8", tag));
    detail::add_text(impl_->summary, tag, text);
  });
}

void SummaryWriter::write_hparams(const HParams& hparams) {
  detail::EventFile& events = impl_->open_file();
  for (const auto& [name, hparam] : hparams) {
    impl_->check_tag(name);
    const double* number = std::get_if<double>(&hparam.value);
    if (number != nullptr && !std::isfinite(*number)) {  // TensorBoard's hyperparameter page would fail
      impl_->fail(ErrorCode::invalid_argument,
                  fmt::format("the hyperparameter '{}' is {}, expected a finite number", name, *number));
    }
    const std::string* text = std::get_if<std::string>(&hparam.value);
    if (text != nullptr && !is_utf8(*text)) {
      impl_->fail(ErrorCode::invalid_argument, fmt::format("the hyperparameter '{}' is not UTF-8", name));
    }
  }
  const double date = Clock::now();
  ProtoMessage summary;
  detail::add_hparams(summary, hparams, date);
  events.add_summary(date, 0, summary);
}

void SummaryWriter::flush() { impl_->open_file().flush(); }

void SummaryWriter::close() {
  if (!impl_->file) return;
  // It is closed even if the flush fails.
  auto events = std::move(*impl_->file);
  impl_->file.reset();
  events.flush();
}

void SummaryWriter::sync() { impl_->open_file().sync(); }

}  // namespace giro
