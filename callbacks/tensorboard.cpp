#include <giro/callbacks/tensorboard.h>

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include <giro/callbacks/summary_writer.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/time/clock.h>
#include <giro/runtime/files/archive.h>

#include "callbacks/event_file.h"
#include "callbacks/histogram_buckets.h"
#include "callbacks/run_writer.h"
#include "runtime/elements.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using detail::append_little_endian, detail::ProtoMessage;

bool is_utf8(const std::string& text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return true;
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

// A PNG file with 8 bits per channel. `pixels` has height * width * channels bytes, row by row; channels is 1 (grey), 3
// (RGB) or 4 (RGBA); no size is 0. Error(unsupported) for an image that libpng cannot write, for example a very wide
// one.
std::string encode_png(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t channels) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();  // bytes of pixels
  const auto fail = [&](const char* why) {
    throw_error(ErrorCode::unsupported, "png: an image of {} x {} pixels and {} channels: {}", height, width, channels,
                why);
  };
  if (width > kMax / channels / height) fail("expected less than 2 GiB of pixels");
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels, 0, nullptr) == 0) fail(image.message);
  file.resize(bytes);
  return file;
}

// Fields of tensorflow.Summary, Summary.Value and SummaryMetadata.
constexpr int kValue = 1;
constexpr int kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
constexpr int kPluginData = 1, kDataClass = 4;
constexpr int kPluginName = 1, kPluginContent = 2;
enum class DataClass { tensor = 2, blob_sequence = 3 };
// Fields of tensorflow.TensorProto.
constexpr int kDType = 1, kTensorShape = 2, kTensorContent = 4, kStringVal = 8;
constexpr int kDim = 2, kSize = 1;
enum class TensorType { f32 = 1, f64 = 2, string = 7 };

ProtoMessage tensor_of(TensorType type, std::initializer_list<std::int64_t> shape) {
  ProtoMessage dims;
  for (const std::int64_t size : shape) dims.add_message(kDim, ProtoMessage().add_integer(kSize, size));
  return ProtoMessage().add_integer(kDType, static_cast<int>(type)).add_message(kTensorShape, dims);
}

void add_tensor(ProtoMessage& summary, std::string_view tag, std::string_view plugin, std::string_view content,
                DataClass data_class, const ProtoMessage& tensor) {
  ProtoMessage plugin_data;
  plugin_data.add_bytes(kPluginName, plugin).add_bytes(kPluginContent, content);
  ProtoMessage metadata;
  metadata.add_message(kPluginData, plugin_data).add_integer(kDataClass, static_cast<int>(data_class));
  ProtoMessage value;
  value.add_bytes(kTag, tag).add_message(kMetadata, metadata).add_message(kTensor, tensor);
  summary.add_message(kValue, value);
}

// As a google.protobuf.Value.
ProtoMessage json_value(const HParam& hparam) {
  constexpr int kNumber = 2, kString = 3, kBool = 4;
  ProtoMessage value;
  if (const double* number = std::get_if<double>(&hparam.value)) return value.add_double(kNumber, *number);
  if (const bool* flag = std::get_if<bool>(&hparam.value)) return value.add_integer(kBool, *flag ? 1 : 0);
  return value.add_bytes(kString, std::get<std::string>(hparam.value));
}

void add_scalar(ProtoMessage& summary, std::string_view tag, double value) {
  summary.add_message(kValue, ProtoMessage().add_bytes(kTag, tag).add_float(kSimpleValue, static_cast<float>(value)));
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

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

struct SummaryWriter::Impl {
  Impl(const std::string& dir, const SummaryWriterOptions& options)
      : name(fmt::format("tensorboard '{}'", dir)),
        buckets(options.histogram_buckets),
        file(std::in_place, dir, options.files, options.flush_interval) {}

  detail::EventFile& open_file() {
    detail::expect_open(name, file.has_value());
    return *file;
  }
  const std::string& checked(const Tag& tag) const {
    if (!is_utf8(tag.path())) throw_invalid("{}: the tag {} is not UTF-8", name, printable(tag.path()));
    return tag.path();
  }

  // Each adds values to the summary of an event, a tensorflow.Summary, as TensorBoard's plugins read it.
  void add(const MetricRecord::Scalars& scalars) {
    for (const auto& [tag, value] : scalars) add_scalar(summary, checked(tag), value);
  }
  void add(const MetricRecord::Images& images) {
    for (const auto& [tag, array] : images) {
      const ImageSizes sizes = image_sizes(checked(tag), array);
      const std::vector<std::uint8_t> pixels = to_bytes(array.tensor());
      const std::int64_t bytes = sizes.height * sizes.width * sizes.channels;
      ProtoMessage strings = tensor_of(TensorType::string, {2 + sizes.count});
      for (const std::int64_t size : {sizes.width, sizes.height}) strings.add_bytes(kStringVal, std::to_string(size));
      for (std::int64_t i = 0; i < sizes.count; ++i) {
        strings.add_bytes(kStringVal, encode_png(pixels.data() + i * bytes, sizes.height, sizes.width, sizes.channels));
      }
      add_tensor(summary, tag.path(), "images", {}, DataClass::blob_sequence, strings);
    }
  }
  void add(const MetricRecord::Histograms& arrays) {
    for (const auto& [tag, array] : arrays) {
      const auto [rows, not_finite] = detail::histogram_buckets(array.tensor(), buckets);
      std::string content;
      for (const double number : rows) append_little_endian(content, std::bit_cast<std::uint64_t>(number), 8);
      ProtoMessage edges_and_counts = tensor_of(TensorType::f64, {static_cast<std::int64_t>(rows.size() / 3), 3});
      edges_and_counts.add_bytes(kTensorContent, content);
      add_tensor(summary, checked(tag), "histograms", {}, DataClass::tensor, edges_and_counts);
      if (not_finite > 0) add_scalar(summary, tag.path() + "/not_finite", static_cast<double>(not_finite));
    }
  }
  void add(const MetricRecord::Texts& texts) {
    for (const auto& [tag, text] : texts) {
      const std::string& path = checked(tag);
      if (!is_utf8(text)) throw_invalid("{}: the text '{}' is not UTF-8", name, path);
      add_tensor(summary, path, "text", {}, DataClass::tensor,
                 tensor_of(TensorType::string, {}).add_bytes(kStringVal, text));
    }
  }
  // A run's hyperparameters, a row in TensorBoard's table of runs, and when the run began, in seconds since the Unix
  // epoch.
  void add(const MetricRecord::HParams& hparams) {
    // Fields of tensorboard.hparams.HParamsPluginData and SessionStartInfo.
    constexpr int kSessionStartInfo = 3;
    constexpr int kHparams = 1, kStartTime = 5;
    constexpr int kMapKey = 1, kMapValue = 2;
    ProtoMessage info;
    for (const auto& [tag, hparam] : hparams) {
      const std::string& path = checked(tag);
      const double* number = std::get_if<double>(&hparam.value);
      if (number != nullptr && !std::isfinite(*number)) {  // TensorBoard's hyperparameter page would fail
        throw_invalid("{}: the hyperparameter '{}' is {}, expected a finite number", name, path, *number);
      }
      const std::string* text = std::get_if<std::string>(&hparam.value);
      if (text != nullptr && !is_utf8(*text)) throw_invalid("{}: the hyperparameter '{}' is not UTF-8", name, path);
      info.add_message(kHparams, ProtoMessage().add_bytes(kMapKey, path).add_message(kMapValue, json_value(hparam)));
    }
    info.add_double(kStartTime, date);
    const ProtoMessage content = ProtoMessage().add_message(kSessionStartInfo, info);
    // TensorBoard reads the metadata only; the tensor is empty.
    add_tensor(summary, "_hparams_/session_start_info", "hparams", content.bytes(), DataClass::tensor,
               tensor_of(TensorType::f32, {0}));
  }

  ImageSizes image_sizes(const std::string& tag, const HostArray& array) const {
    const DType dtype = array.dtype();
    if (dtype != DType::u8 && !is_floating(dtype)) {
      throw_error(ErrorCode::dtype_mismatch, "{}: image '{}' is {}, expected u8 or a floating-point type", name, tag,
                  name_of(dtype));
    }
    const Shape& shape = array.shape();
    const std::size_t rank = shape.rank();
    const bool has_channels = rank > 0 && (shape[-1] == 1 || shape[-1] == 3 || shape[-1] == 4);
    const bool has_pixels = std::all_of(shape.begin() + (rank == 4 ? 1 : 0), shape.end(), [](auto n) { return n > 0; });
    if ((rank != 3 && rank != 4) || !has_channels || !has_pixels) {
      throw_error(ErrorCode::shape_mismatch,
                  "{}: image '{}' has the shape {}, expected (height, width, channels) or (n, height, width, channels) "
                  "with 1, 3 or 4 channels",
                  name, tag, to_string(shape));
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

struct TensorBoard::Board final : detail::RunWriter {
  Board(std::string name, TensorBoardOptions given) : dir(std::move(name)), options(std::move(given)) {}

  std::shared_ptr<void> claim(std::shared_ptr<void>) override {
    if (writer) return nullptr;
    writer.emplace(dir, SummaryWriterOptions{.flush_interval = options.flush_interval,
                                             .histogram_buckets = options.histogram_buckets,
                                             .files = options.files});
    return nullptr;
  }
  void begin(const Elapsed& elapsed) override {
    claim(nullptr);
    if (!has_begun || resumed) writer->purge(elapsed.steps, resumed);
    has_begun = true;
    resumed = false;
    if (std::exchange(described, true)) return;
    if (!options.hparams.empty()) writer->write_hparams(options.hparams);
    writer->write_texts(elapsed.steps, options.texts);
  }
  void write(const MetricRecord& record) override {
    begin(record.elapsed);
    writer->write(record);
  }
  void flush() override {
    if (writer) writer->sync();
  }
  void persist(Archive& archive) override {
    archive("described", described);
    if (archive.is_reading()) {
      resumed = true;
    } else {
      flush();
    }
  }

  std::string dir;
  TensorBoardOptions options;
  std::optional<SummaryWriter> writer;
  bool has_begun = false;
  bool described = false;  // whether hparams and texts were written
  bool resumed = false;    // whether the next loop continues a run that has written to the directory
};

TensorBoard::TensorBoard(std::string dir, TensorBoardOptions options)
    : TensorBoard(std::make_shared<Board>(std::move(dir), std::move(options))) {}
TensorBoard::TensorBoard(const std::shared_ptr<Board>& board) : MetricLogger(board), board_(board) {}

void TensorBoard::operator()(const Elapsed& elapsed, const Logs& logs) {
  MetricLogger::operator()(elapsed, logs);
  if (board_->options.images.empty() && board_->options.histograms.empty()) return;
  for (const Logs::Entry& entry : logs.entries()) {
    if (!is_array(entry)) continue;
    const auto array = [&] {
      return MetricRecord::Arrays{{Tag::of_entry("outputs", entry.name), logs.output(entry.name)}};
    };
    if (is_among(board_->options.images, entry.name)) board_->write_images(elapsed.steps, array());
    if (is_among(board_->options.histograms, entry.name)) board_->write_histograms(elapsed.steps, array());
  }
}

TensorBoardHistograms TensorBoard::histograms(std::vector<std::string> collections) const {
  return TensorBoardHistograms(board_, std::move(collections));
}

MetricWriter& TensorBoard::writer() const {
  if (!board_->writer) {
    throw_invalid("tensorboard '{}': there is no writer before a loop begins, nor on ranks other than 0", board_->dir);
  }
  return *board_->writer;
}

void TensorBoardHistograms::operator()(const Elapsed& elapsed, const State& state) {
  MetricWriter::Arrays arrays;
  for (const std::string& name : collections_) {
    for (const Leaf& leaf : state.collection(name).leaves()) {
      arrays.emplace_back(leaf.path, HostArray::copy_of(leaf.value, state.stream()));
    }
  }
  board_->write({elapsed, MetricRecord::Histograms{std::move(arrays)}});
}

TensorBoard tensorboard(const std::string& dir, const TensorBoardOptions& options) { return {dir, options}; }

}  // namespace giro
