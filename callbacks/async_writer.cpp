#include <giro/callbacks/async_writer.h>

#include <utility>

#include "callbacks/worker.h"
#include "runtime/throw_error.h"

namespace giro {

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

}  // namespace giro
