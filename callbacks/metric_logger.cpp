#include <giro/callbacks/metric_logger.h>

#include <variant>

#include <giro/loop/log/outputs.h>

#include "callbacks/run_writer.h"
#include "runtime/throw_error.h"

namespace giro {

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
