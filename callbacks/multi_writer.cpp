#include <giro/callbacks/multi_writer.h>

#include <algorithm>
#include <exception>
#include <utility>

#include <giro/runtime/error.h>

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

MultiWriter::MultiWriter(std::vector<std::shared_ptr<MetricWriter>> writers) : writers_(std::move(writers)) {
  if (std::count(writers_.begin(), writers_.end(), nullptr) > 0)
    throw Error(ErrorCode::invalid_argument, "MultiWriter: one of the writers is null");
}

void MultiWriter::write_scalars(std::int64_t step, const Scalars& scalars) {
  for_all(writers_, [&](MetricWriter& writer) { writer.write_scalars(step, scalars); });
}
void MultiWriter::write_images(std::int64_t step, const Arrays& images) {
  for_all(writers_, [&](MetricWriter& writer) { writer.write_images(step, images); });
}
void MultiWriter::write_histograms(std::int64_t step, const Arrays& arrays) {
  for_all(writers_, [&](MetricWriter& writer) { writer.write_histograms(step, arrays); });
}
void MultiWriter::write_texts(std::int64_t step, const Texts& texts) {
  for_all(writers_, [&](MetricWriter& writer) { writer.write_texts(step, texts); });
}
void MultiWriter::write_hparams(const HParams& hparams) {
  for_all(writers_, [&](MetricWriter& writer) { writer.write_hparams(hparams); });
}
void MultiWriter::flush() {
  for_all(writers_, [](MetricWriter& writer) { writer.flush(); });
}
void MultiWriter::close() {
  for_all(writers_, [](MetricWriter& writer) { writer.close(); });
}

}  // namespace giro
