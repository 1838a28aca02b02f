#pragma once

// Which checkpoints of a directory stay.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>

#include "runtime/files/stored_checkpoints.h"

namespace giro::detail {

// Whether `a` has a better value for a log entry than `b`, or has one while `b` has none. NaN counts as none.
bool is_better(const CheckpointRecord& a, const CheckpointRecord& b, const std::string& monitor,
               const std::string& mode);

// Which of the items to remove once there is a checkpoint of `steps`, in increasing order.
std::vector<std::size_t> superseded(const std::deque<StoredCheckpoints::Item>& items, std::int64_t steps,
                                    const CheckpointStoreOptions& options);

}  // namespace giro::detail
