#include "callbacks/summary_values.h"

#include <variant>

namespace giro::detail {
namespace {

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

}  // namespace

void add_scalar(ProtoMessage& summary, std::string_view tag, double value) {
  summary.add_message(kValue, ProtoMessage().add_bytes(kTag, tag).add_float(kSimpleValue, static_cast<float>(value)));
}

void add_histogram(ProtoMessage& summary, std::string_view tag, const std::vector<double>& rows) {
  std::string content;
  for (const double number : rows) append_little_endian(content, std::bit_cast<std::uint64_t>(number), 8);
  ProtoMessage edges_and_counts = tensor_of(TensorType::f64, {static_cast<std::int64_t>(rows.size() / 3), 3});
  edges_and_counts.add_bytes(kTensorContent, content);
  add_tensor(summary, tag, "histograms", {}, DataClass::tensor, edges_and_counts);
}

void add_images(ProtoMessage& summary, std::string_view tag, std::int64_t width, std::int64_t height,
                const std::vector<std::string>& files) {
  ProtoMessage strings = tensor_of(TensorType::string, {2 + static_cast<std::int64_t>(files.size())});
  strings.add_bytes(kStringVal, std::to_string(width)).add_bytes(kStringVal, std::to_string(height));
  for (const std::string& file : files) strings.add_bytes(kStringVal, file);
  add_tensor(summary, tag, "images", {}, DataClass::blob_sequence, strings);
}

void add_text(ProtoMessage& summary, std::string_view tag, std::string_view markdown) {
  add_tensor(summary, tag, "text", {}, DataClass::tensor,
             tensor_of(TensorType::string, {}).add_bytes(kStringVal, markdown));
}

void add_hparams(ProtoMessage& summary, const MetricWriter::HParams& hparams, double date) {
  // Fields of tensorboard.hparams.HParamsPluginData and SessionStartInfo.
  constexpr int kSessionStartInfo = 3;
  constexpr int kHparams = 1, kStartTime = 5;
  constexpr int kMapKey = 1, kMapValue = 2;
  ProtoMessage info;
  for (const auto& [tag, value] : hparams) {
    info.add_message(kHparams, ProtoMessage().add_bytes(kMapKey, tag.path()).add_message(kMapValue, json_value(value)));
  }
  info.add_double(kStartTime, date);
  const ProtoMessage content = ProtoMessage().add_message(kSessionStartInfo, info);
  // TensorBoard reads the metadata only; the tensor is empty.
  add_tensor(summary, "_hparams_/session_start_info", "hparams", content.bytes(), DataClass::tensor,
             tensor_of(TensorType::f32, {0}));
}

}  // namespace giro::detail
