#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <giro/runtime/buffer.h>

namespace giro::detail {

// Host memory for batches, reused once its batch has been released.
class StoragePool : public std::enable_shared_from_this<StoragePool> {
 public:
  using Storage = std::vector<Buffer>;  // one block per feature

  explicit StoragePool(std::vector<std::size_t> block_sizes) : block_sizes_(std::move(block_sizes)) {}

  std::shared_ptr<Storage> take() {
    std::unique_ptr<Storage> storage = take_unused();
    if (!storage) {
      storage = std::make_unique<Storage>();
      for (const std::size_t size : block_sizes_) storage->push_back(Buffer::allocate(Device::cpu(), size));
    }
    return {storage.release(), [pool = shared_from_this()](Storage* used) noexcept { pool->recycle(used); }};
  }

 private:
  std::unique_ptr<Storage> take_unused() {
    const std::lock_guard lock(mutex_);
    return num_free_ > 0 ? std::move(free_[--num_free_]) : nullptr;
  }

  void recycle(Storage* used) noexcept {
    std::unique_ptr<Storage> storage(used);
    const std::lock_guard lock(mutex_);
    if (num_free_ < free_.size()) free_[num_free_++] = std::move(storage);
  }

  const std::vector<std::size_t> block_sizes_;
  std::mutex mutex_;
  std::array<std::unique_ptr<Storage>, 8> free_;
  std::size_t num_free_ = 0;
};

}  // namespace giro::detail
