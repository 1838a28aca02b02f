#include <giro/callbacks/metric_logger.h>

#include <variant>

#include <giro/loop/log/outputs.h>
#include <giro/runtime/error.h>

namespace giro {

MetricLogger::MetricLogger(std::shared_ptr<MetricWriter> writer) : writer_(std::move(writer)) {
  if (!writer_) throw Error(ErrorCode::invalid_argument, "metric_logger: the writer is null");
}

const Record& MetricLogger::record_of(const Elapsed& elapsed, const Logs& logs) {
  record_.elapsed = elapsed;
  auto& scalars = std::get<Record::Scalars>(record_.values);
  std::size_t count = 0;
  if (!(logs.schema() == schema_)) scalars.clear();
  schema_ = logs.schema();
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
  return record_;
}

void MetricLogger::operator()(const Elapsed& elapsed, const Logs& logs) {
  const Record& record = record_of(elapsed, logs);
  if (!std::get<Record::Scalars>(record.values).empty()) writer_->write(record);
}

void MetricLogger::on_end() { writer_->flush(); }

}  // namespace giro
