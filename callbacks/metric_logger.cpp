#include <giro/callbacks/metric_logger.h>

#include <giro/loop/log/outputs.h>
#include <giro/runtime/error.h>

namespace giro {

MetricLogger::MetricLogger(std::shared_ptr<MetricWriter> writer) : writer_(std::move(writer)) {
  if (!writer_) throw Error(ErrorCode::invalid_argument, "metric_logger: the writer is null");
}

void MetricLogger::operator()(const Elapsed& elapsed, const Logs& logs) {
  MetricWriter::Scalars scalars;
  for (const Logs::Entry& entry : logs.entries()) {
    if (!is_array(entry)) scalars.emplace_back(entry.collection + "/" + entry.name, entry.value.value());
  }
  if (!scalars.empty()) writer_->write_scalars(elapsed.steps, scalars);
}

void MetricLogger::on_end() { writer_->flush(); }

}  // namespace giro
