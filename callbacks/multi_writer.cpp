#include <giro/callbacks/multi_writer.h>

#include <algorithm>
#include <exception>
#include <utility>

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

}  // namespace giro
