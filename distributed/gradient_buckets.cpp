#include "distributed/gradient_buckets.h"

#include <utility>

#include "runtime/backend.h"

namespace giro::detail {

GradientBuckets::GradientBuckets(Communicator ranks, const Collection& grads, DeviceContext context,
                                 std::int64_t bucket_bytes)
    : ranks_(std::move(ranks)),
      flat_(grads.flat()),
      context_(std::move(context)),
      bucket_bytes_(bucket_bytes),
      leaves_(grads.leaves().size()) {
  const auto* const start = static_cast<const char*>(flat_.raw());
  for (const Leaf& leaf : grads.leaves()) {
    begins_.push_back((static_cast<const char*>(leaf.value.raw()) - start) /
                      static_cast<std::int64_t>(size_of(flat_.dtype())));
  }
  begins_.push_back(flat_.count());
}

void GradientBuckets::ready(std::size_t leaf) {
  leaves_[leaf] = Progress::ready;
  ready_bytes_ += (begins_[leaf + 1] - begins_[leaf]) * static_cast<std::int64_t>(size_of(flat_.dtype()));
  if (ready_bytes_ >= bucket_bytes_) send();
}

void GradientBuckets::finish() {
  for (Progress& leaf : leaves_) {
    if (leaf == Progress::computing) leaf = Progress::ready;
  }
  send();
  wait_for_work(context_.stream(), context_.communication_stream());
}

void GradientBuckets::send() {
  const Stream& sending = context_.communication_stream();
  wait_for_work(sending, context_.stream());
  for (std::size_t i = 0; i < leaves_.size();) {
    const std::size_t first = i;
    while (i < leaves_.size() && leaves_[i] == Progress::ready) leaves_[i++] = Progress::sent;
    if (i == first) {
      ++i;
      continue;
    }
    auto* const begin = static_cast<float*>(flat_.raw()) + begins_[first];
    ranks_.all_reduce(Tensor(begin, flat_.dtype(), {begins_[i] - begins_[first]}, flat_.device()), Reduction::mean,
                      sending);
  }
  ready_bytes_ = 0;
}

}  // namespace giro::detail
