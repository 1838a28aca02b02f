#pragma once

#include <memory>

#include <giro/callbacks/metric_writer.h>
#include <giro/runtime/not_copied.h>

namespace giro {

namespace detail {
class Worker;
}

// A MetricWriter with calls that return at once: a separate thread passes them to another writer, in order. It waits
// only while 1,024 calls are queued. An error in a queued call is thrown once, by the next call, which then writes
// nothing. flush and close wait until everything is written, and so does the destructor.
class AsyncWriter final : public MetricWriter, detail::NotCopied {
 public:
  // Nothing else may use `writer` while this lives.
  explicit AsyncWriter(std::shared_ptr<MetricWriter> writer);

  void write(const MetricRecord& record) override;
  void flush() override;
  void close() override;

 private:
  std::shared_ptr<MetricWriter> writer_;
  std::shared_ptr<detail::Worker> worker_;
};

}  // namespace giro
