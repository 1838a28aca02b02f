#include <giro/callbacks/metric_writer.h>

#include <algorithm>
#include <exception>

#include <giro/callbacks/async_writer.h>
#include <giro/callbacks/metric_logger.h>
#include <giro/callbacks/multi_writer.h>
#include <giro/loop/log/outputs.h>

#include "callbacks/run_writer.h"
#include "callbacks/worker.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

template <class F>
void for_all(const std::vector<std::shared_ptr<MetricWriter>>& writers, F&& f) {
  std::exception_ptr failed;
  for (const auto& writer : writers) {
    try {
      f(*writer);
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

}  // namespace

HParam::HParam(bool flag) : value(flag) {}
HParam::HParam(double number) : value(number) {}
HParam::HParam(std::string text) : value(std::move(text)) {}

Tag Tag::of_entry(std::string_view collection, std::string_view name) {
  Tag tag(collection);
  tag.path_.append(1, '/').append(name);
  tag.name_begin_ = collection.size() + 1;
  return tag;
}

void MetricWriter::write_scalars(std::int64_t step, Scalars scalars) { write({{.steps = step}, std::move(scalars)}); }
void MetricWriter::write_images(std::int64_t step, Arrays images) {
  write({{.steps = step}, MetricRecord::Images{std::move(images)}});
}
void MetricWriter::write_histograms(std::int64_t step, Arrays arrays) {
  write({{.steps = step}, MetricRecord::Histograms{std::move(arrays)}});
}
void MetricWriter::write_texts(std::int64_t step, Texts texts) { write({{.steps = step}, std::move(texts)}); }
void MetricWriter::write_hparams(HParams hparams) { write({{}, std::move(hparams)}); }

void detail::expect_open(const std::string& writer, bool is_open) {
  if (!is_open) throw_invalid("{}: it is closed", writer);
}

void detail::expect_writable(const std::string& writer, bool is_open, const MetricRecord& record) {
  expect_open(writer, is_open);
  if (record.elapsed.steps < 0) throw_invalid("{}: the step is {}, expected 0 or more", writer, record.elapsed.steps);
  const auto has_empty_tag = [](const auto& values) {
    return std::ranges::any_of(values, [](const auto& tagged) { return tagged.first.path().empty(); });
  };
  if (std::visit(has_empty_tag, record.values)) throw_invalid("{}: a tag is empty", writer);
}

MultiWriter::MultiWriter(std::vector<std::shared_ptr<MetricWriter>> writers) : writers_(std::move(writers)) {
  if (std::ranges::count(writers_, nullptr) > 0) throw_invalid("MultiWriter: one of the writers is null");
}

void MultiWriter::write(const MetricRecord& record) {
  for_all(writers_, [&](MetricWriter& writer) { writer.write(record); });
}
void MultiWriter::flush() {
  for_all(writers_, [](MetricWriter& writer) { writer.flush(); });
}
void MultiWriter::close() {
  for_all(writers_, [](MetricWriter& writer) { writer.close(); });
}

AsyncWriter::AsyncWriter(std::shared_ptr<MetricWriter> writer)
    : writer_(std::move(writer)), worker_(std::make_shared<detail::Worker>()) {
  if (!writer_) throw_invalid("AsyncWriter: the writer is null");
}

void AsyncWriter::write(const MetricRecord& record) {
  worker_->submit([this, record] { writer_->write(record); });
}
void AsyncWriter::flush() {
  worker_->join();
  writer_->flush();
}
// Closes the writer even if an earlier error surfaces. If closing fails too, that error is thrown instead.
void AsyncWriter::close() {
  try {
    worker_->join();
  } catch (...) {
    writer_->close();
    throw;
  }
  writer_->close();
}

MetricLogger::MetricLogger(std::shared_ptr<MetricWriter> writer)
    : writer_(std::move(writer)), run_(dynamic_cast<detail::RunWriter*>(writer_.get())) {
  if (writer_.get() == nullptr) throw_invalid("metric_logger: the writer is null");
}

void MetricLogger::on_claim() {
  if (run_ != nullptr && !claim_) claim_ = run_->claim(writer_);
}
void MetricLogger::on_start(const Elapsed& elapsed) {
  on_claim();
  if (run_ != nullptr) run_->begin(elapsed);
}
void MetricLogger::persist(Archive& archive) {
  if (run_ != nullptr) run_->persist(archive);
}

void MetricLogger::operator()(const Elapsed& elapsed, const Logs& logs) {
  on_claim();
  record_.elapsed = elapsed;
  auto& scalars = std::get<MetricRecord::Scalars>(record_.values);
  std::size_t count = 0;
  if (!(logs.schema() == schema_)) {
    scalars.clear();
    schema_ = logs.schema();
  }
  for (std::size_t i = 0; i < logs.entries().size(); ++i) {
    const Logs::Entry entry = logs.entries()[i];
    if (is_array(entry)) continue;
    if (count == scalars.size() || entries_[count] != i) {
      scalars.resize(count, {"", 0});
      entries_.resize(count);
      scalars.emplace_back(Tag::of_entry(entry.collection, entry.name), 0);
      entries_.push_back(i);
    }
    scalars[count++].second = entry.value.value();
  }
  scalars.resize(count, {"", 0});
  // The first record of a run begins its files, even if it has no numbers.
  if (run_ != nullptr || count > 0) writer_->write(record_);
}

void MetricLogger::on_end() {
  writer_->flush();
  claim_.reset();
}

}  // namespace giro
