#include <giro/callbacks/file_logger.h>

#include "callbacks/internal/run_writer.h"

namespace giro {

FileLogger::FileLogger(const std::shared_ptr<detail::RunWriter>& writer) : MetricLogger(writer), writer_(writer) {}

void FileLogger::on_claim() {
  if (!claim_) claim_ = writer_->claim(writer_);
}
void FileLogger::on_start(const Elapsed& elapsed) {
  on_claim();
  writer_->begin(elapsed);
}
void FileLogger::operator()(const Elapsed& elapsed, const Logs& logs) {
  on_claim();
  writer_->write(record_of(elapsed, logs));
}
void FileLogger::persist(Archive& archive) { writer_->persist(archive); }
void FileLogger::on_end() {
  writer_->flush();
  claim_.reset();
}

}  // namespace giro
