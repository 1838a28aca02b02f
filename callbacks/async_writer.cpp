#include <giro/callbacks/async_writer.h>

#include <utility>

#include <giro/runtime/error.h>

#include "callbacks/internal/worker.h"

namespace giro {

AsyncWriter::AsyncWriter(std::shared_ptr<MetricWriter> writer)
    : writer_(std::move(writer)), worker_(std::make_shared<detail::Worker>()) {
  if (!writer_) throw Error(ErrorCode::invalid_argument, "AsyncWriter: the writer is null");
}
AsyncWriter::~AsyncWriter() = default;

void AsyncWriter::write_scalars(std::int64_t step, const Scalars& scalars) {
  worker_->submit([this, step, scalars] { writer_->write_scalars(step, scalars); });
}
void AsyncWriter::write_images(std::int64_t step, const Arrays& images) {
  worker_->submit([this, step, images] { writer_->write_images(step, images); });
}
void AsyncWriter::write_histograms(std::int64_t step, const Arrays& arrays) {
  worker_->submit([this, step, arrays] { writer_->write_histograms(step, arrays); });
}
void AsyncWriter::write_texts(std::int64_t step, const Texts& texts) {
  worker_->submit([this, step, texts] { writer_->write_texts(step, texts); });
}
void AsyncWriter::write_hparams(const HParams& hparams) {
  worker_->submit([this, hparams] { writer_->write_hparams(hparams); });
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
