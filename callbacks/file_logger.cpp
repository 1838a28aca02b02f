#include <giro/callbacks/file_logger.h>

#include "callbacks/internal/record_writer.h"

namespace giro {

void FileLogger::on_claim() {
  if (!claim_) claim_ = records_->claim(records_);
}
void FileLogger::on_start(const Elapsed& elapsed) {
  on_claim();
  records_->start(elapsed.steps);
}
void FileLogger::operator()(const Elapsed& elapsed, const Logs& logs) {
  on_claim();
  records_->write(elapsed, logs);
}
void FileLogger::persist(Archive& archive) { records_->persist(archive); }
void FileLogger::on_end() {
  records_->sync();
  claim_.reset();
}

}  // namespace giro
