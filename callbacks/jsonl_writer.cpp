#include <giro/callbacks/jsonl_writer.h>

#include <fmt/format.h>

#include <string_view>
#include <variant>
#include <vector>

#include "callbacks/internal/log_file.h"
#include "callbacks/internal/metric_text.h"
#include "loop/log/internal/record_text.h"

namespace giro {
namespace {

using detail::append_json, detail::json_string;

constexpr const char* kJsonlWriter = "JsonlWriter";

std::string json_of(double value) {
  std::string text;
  append_json(text, value);
  return text;
}

std::string json_of(const HParam& hparam) {
  if (const double* number = std::get_if<double>(&hparam.value)) return json_of(*number);
  if (const bool* flag = std::get_if<bool>(&hparam.value)) return *flag ? "true" : "false";
  return json_string(std::get<std::string>(hparam.value));
}

std::string json_of(const detail::Histogram& histogram) {
  std::vector<std::string> edges;
  for (const double edge : histogram.edges) edges.push_back(json_of(edge));
  return fmt::format(R"({{"edges":[{}],"counts":[{}]}})", fmt::join(edges, ","), fmt::join(histogram.counts, ","));
}

// {"tag":value,...}
template <class Tagged, class F>
std::string object_of(const Tagged& tagged, F&& json) {
  std::string text = "{";
  for (const auto& [tag, value] : tagged) {
    text += fmt::format("{}{}:{}", text.size() > 1 ? "," : "", json_string(tag), json(value));
  }
  return text + "}";
}

std::string line_of(std::int64_t step, std::string_view kind, const std::string& object) {
  return fmt::format(R"({{"step":{},"{}":{}}})", step, kind, object);
}

}  // namespace

JsonlWriter::JsonlWriter(const std::string& path, const LoggerOptions& options)
    : file_(std::make_shared<detail::LogFile>(
          path, options, [](std::string_view text, std::size_t begin) { return text.find('\n', begin); })) {
  claim_ = file_->claim(file_);
  file_->open([](const std::string&) { return true; });
}
JsonlWriter::~JsonlWriter() = default;

void JsonlWriter::line(const std::string& text) {
  if (is_closed_) detail::reject_closed(kJsonlWriter);
  file_->text += text;
  file_->end_line(Elapsed::now());
}

void JsonlWriter::write_scalars(std::int64_t step, const Scalars& scalars) {
  detail::expect_step_and_tags(kJsonlWriter, step, scalars);
  line(line_of(step, "scalars", object_of(scalars, [](double value) { return json_of(value); })));
}

void JsonlWriter::write_images(std::int64_t step, const Arrays& images) {
  detail::expect_step_and_tags(kJsonlWriter, step, images);
  line(line_of(step, "images", object_of(images, [](const HostArray& image) {
                 return fmt::format(R"({{"dtype":"{}","shape":[{}]}})", name_of(image.dtype()),
                                    fmt::join(image.shape().begin(), image.shape().end(), ","));
               })));
}

void JsonlWriter::write_histograms(std::int64_t step, const Arrays& arrays) {
  detail::expect_step_and_tags(kJsonlWriter, step, arrays);
  line(line_of(step, "histograms",
               object_of(arrays, [](const HostArray& array) { return json_of(detail::histogram_of(array)); })));
}

void JsonlWriter::write_texts(std::int64_t step, const Texts& texts) {
  detail::expect_step_and_tags(kJsonlWriter, step, texts);
  line(line_of(step, "texts", object_of(texts, [](const std::string& text) { return json_string(text); })));
}

void JsonlWriter::write_hparams(const HParams& hparams) {
  detail::expect_step_and_tags(kJsonlWriter, 0, hparams);
  line(fmt::format(R"({{"hparams":{}}})", object_of(hparams, [](const HParam& value) { return json_of(value); })));
}

void JsonlWriter::flush() {
  if (is_closed_) detail::reject_closed(kJsonlWriter);
  file_->flush();
}
void JsonlWriter::close() {
  if (is_closed_) return;
  file_->sync();
  claim_.reset();
  is_closed_ = true;
}

}  // namespace giro
