#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include <giro/runtime/buffer.h>

namespace giro {

// Stream-ordered temporaries of one device. A block that is given back serves the next request at once: the
// stream runs its work in order, so whatever still uses the old contents is done before the new user starts.
// For recordings this plans the graphs' memory: buffers whose lifetimes do not overlap share addresses, and so do
// those of recordings that are replayed one after the other. A block that is still held is nobody else's.
// Not thread-safe; one arena belongs to one stream, or to the recordings of one.
//
// An arena of kind `trace` shares nothing: while a recording is made none of its work has run, and each of its
// temporaries has addresses of its own, from which their memory is planned in the end (recording.h).
//
// With GIRO_ARENA=0 in the environment it does none of that: each request is an allocation of its own, freed
// when it is given back, or with its recording. So compute-sanitizer and AddressSanitizer see what goes beyond
// a temporary, and what uses one of a stream's that was given back.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  enum class Of { stream, recording, trace };

  Arena(Device device, Of of);
  // Whether GIRO_ARENA says so, as of now.
  static bool is_off();

  // First fit in the free blocks; grows by a chunk when nothing fits. Errors: those of Buffer::allocate.
  Buffer allocate(std::size_t bytes);
  void release(void* data) noexcept;

  std::size_t reserved_bytes() const noexcept { return reserved_; }

  struct Block {
    std::size_t size;
    std::size_t chunk;
    bool free;
    bool pinned = false;  // of a trace: it keeps its place
  };
  using Blocks = std::map<char*, Block>;

  // Bytes that a block for so many takes.
  static std::size_t block_size(std::size_t bytes);
  // Of a trace: the block that an address lies in, or null.
  const Blocks::value_type* block_at(const void* address) const;
  // Blocks that are held now keep their place for as long as this arena lives.
  void pin_held();
  // So does the block that an address lies in, if there is one.
  void pin(const void* address);
  // Whether blocks may have other places than they were given.
  bool shares() const noexcept { return shares_; }
  // Frees the memory in which nothing is pinned, if it shares.
  void drop_unpinned();

 private:
  Buffer allocate_traced(std::size_t bytes);
  Buffer allocate_apart(std::size_t bytes);
  Buffer lend(char* data, std::size_t bytes);

  Device device_;
  Of of_;
  bool shares_;
  std::vector<Buffer> chunks_;
  Blocks blocks_;           // every block by address; neighbours in a chunk are neighbours here
  char* unused_ = nullptr;  // of a trace: the rest of the last chunk
  std::size_t unused_bytes_ = 0;
  std::size_t reserved_ = 0;
};

}  // namespace giro
