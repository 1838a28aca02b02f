#include <giro/callbacks/summary_writer.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include <giro/loop/time/clock.h>

#include "callbacks/event_file.h"
#include "callbacks/histogram_buckets.h"
#include "callbacks/png_image.h"
#include "callbacks/run_writer.h"
#include "callbacks/summary_values.h"
#include "runtime/elements.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

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
      : name(fmt::format("tensorboard '{}'", dir)),
        buckets(options.histogram_buckets),
        file(std::in_place, dir, options.files, options.flush_interval) {}

  [[noreturn]] void fail(ErrorCode code, const std::string& what) const { throw_error(code, "{}: {}", name, what); }
  detail::EventFile& open_file() {
    detail::expect_open(name, file.has_value());
    return *file;
  }
  const std::string& checked(const Tag& tag) const {
    if (!is_utf8(tag.path())) {
      fail(ErrorCode::invalid_argument, fmt::format("the tag {} is not UTF-8", printable(tag.path())));
    }
    return tag.path();
  }

  // Each adds values to the summary of an event.
  void add(const MetricRecord::Scalars& scalars) {
    for (const auto& [tag, value] : scalars) detail::add_scalar(summary, checked(tag), value);
  }
  void add(const MetricRecord::Images& images) {
    for (const auto& [tag, array] : images) {
      const ImageSizes sizes = image_sizes(checked(tag), array);
      const std::vector<std::uint8_t> pixels = to_bytes(array.tensor());
      const std::int64_t bytes = sizes.height * sizes.width * sizes.channels;
      std::vector<std::string> files;
      for (std::int64_t i = 0; i < sizes.count; ++i) {
        files.push_back(detail::encode_png(pixels.data() + i * bytes, sizes.height, sizes.width, sizes.channels));
      }
      detail::add_images(summary, tag.path(), sizes.width, sizes.height, files);
    }
  }
  void add(const MetricRecord::Histograms& arrays) {
    for (const auto& [tag, array] : arrays) {
      const detail::HistogramBuckets counted = detail::histogram_buckets(array.tensor(), buckets);
      detail::add_histogram(summary, checked(tag), counted.rows);
      if (counted.not_finite == 0) continue;
      detail::add_scalar(summary, tag.path() + "/not_finite", static_cast<double>(counted.not_finite));
    }
  }
  void add(const MetricRecord::Texts& texts) {
    for (const auto& [tag, text] : texts) {
      const std::string& path = checked(tag);
      if (!is_utf8(text)) fail(ErrorCode::invalid_argument, fmt::format("the text '{}' is not UTF-8", path));
      detail::add_text(summary, path, text);
    }
  }
  void add(const MetricRecord::HParams& hparams) {
    for (const auto& [tag, hparam] : hparams) {
      const std::string& path = checked(tag);
      const double* number = std::get_if<double>(&hparam.value);
      if (number != nullptr && !std::isfinite(*number)) {  // TensorBoard's hyperparameter page would fail
        fail(ErrorCode::invalid_argument,
             fmt::format("the hyperparameter '{}' is {}, expected a finite number", path, *number));
      }
      const std::string* text = std::get_if<std::string>(&hparam.value);
      if (text != nullptr && !is_utf8(*text)) {
        fail(ErrorCode::invalid_argument, fmt::format("the hyperparameter '{}' is not UTF-8", path));
      }
    }
    detail::add_hparams(summary, hparams, date);
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
      fail(ErrorCode::shape_mismatch, fmt::format("image '{}' has the shape {}, expected (height, width, channels) or "
                                                  "(n, height, width, channels) with 1, 3 or 4 channels",
                                                  tag, to_string(shape)));
    }
    return {rank == 4 ? shape[0] : 1, shape[-3], shape[-2], shape[-1]};
  }

  std::string name;  // for messages
  std::int64_t buckets;
  std::optional<detail::EventFile> file;  // empty once closed
  ProtoMessage summary;                   // of the current event
  double date = 0;
};

SummaryWriter::SummaryWriter(const std::string& dir, const SummaryWriterOptions& options) {
  if (dir.empty()) throw_invalid("tensorboard: the directory's name is empty");
  const auto check = [&](const char* option, auto found, int least) {
    if (found >= least) return;
    throw_invalid("tensorboard '{}': {} is {}, expected at least {}", dir, option, found, least);
  };
  check("flush_interval", options.flush_interval, 0);
  check("histogram_buckets", options.histogram_buckets, 1);
  check("purge_step", options.purge_step.value_or(0), 0);
  if (options.resume && !options.purge_step)
    throw_invalid("tensorboard '{}': resume without purge_step, the step from which the run continues", dir);
  impl_ = std::make_shared<Impl>(dir, options);
  if (options.purge_step) purge(*options.purge_step, options.resume);
}

void SummaryWriter::purge(std::int64_t step, bool resume) {
  detail::EventFile& events = impl().open_file();
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

// Writes one event with all values.
void SummaryWriter::write(const MetricRecord& record) {
  Impl& impl = this->impl();
  detail::expect_writable(impl.name, impl.file.has_value(), record);
  impl.summary.clear();
  impl.date = Clock::now();
  std::visit([&](const auto& values) { impl.add(values); }, record.values);
  if (!impl.summary.empty()) impl.file->add_summary(impl.date, record.elapsed.steps, impl.summary);
}

SummaryWriter::Impl& SummaryWriter::impl() const {
  if (!impl_) throw_invalid("summary_writer: it was moved from");
  return *impl_;
}

void SummaryWriter::flush() { impl().open_file().flush(); }

void SummaryWriter::close() {
  if (!impl().file) return;
  // It is closed even if the flush fails.
  auto events = std::move(*impl_->file);
  impl_->file.reset();
  events.flush();
}

void SummaryWriter::sync() { impl().open_file().sync(); }

}  // namespace giro
