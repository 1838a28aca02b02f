#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include <giro/runtime/buffer.h>

namespace giro {

// Stream-ordered temporaries of one device. A block that is given back can serve the next request at once: the stream
// runs its work in order, so the last use of the old contents is done before the new user starts. For recordings this
// plans the memory of the graphs: buffers with lifetimes that do not overlap share addresses, and so do recordings that
// are replayed one after the other. A block that is still held is never shared. Not thread-safe; an arena belongs to
// one stream, or to the recordings of one.
//
// An arena of kind `trace` shares nothing: while work is recorded, none of it has run, so each temporary gets its own
// addresses, from which the memory is planned at the end (recording.h).
//
// An arena of kind `nowhere` is a trace whose addresses have no memory: for work that will never run.
//
// With GIRO_ARENA=0 in the environment nothing is shared: each request is a separate allocation, freed when it is given
// back, or with its recording. compute-sanitizer and AddressSanitizer then detect accesses beyond a temporary, and uses
// of a stream's temporary after it was given back.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  enum class Kind { stream, recording, trace, nowhere };

  Arena(Device device, Kind kind);
  // Whether GIRO_ARENA is 0 now.
  static bool is_off();

  // First fit in the free blocks; grows by a chunk when nothing fits. Errors: those of Buffer::allocate.
  Buffer allocate(std::size_t bytes);
  void release(void* data) noexcept;

  std::size_t reserved_bytes() const noexcept { return reserved_; }

  struct Block {
    std::size_t size;
    std::size_t chunk;
    bool free;
    bool pinned = false;  // in a trace: it keeps its address
  };
  using Blocks = std::map<char*, Block>;

  // The size of a block for `bytes` bytes.
  static std::size_t block_size(std::size_t bytes);
  bool is_trace() const noexcept { return kind_ == Kind::trace || kind_ == Kind::nowhere; }
  // For a trace: the block that contains an address, or null.
  const Blocks::value_type* block_at(const void* address) const;
  // Blocks held now keep their addresses as long as this arena lives.
  void pin_held();
  // The same for the block that contains this address, if there is one.
  void pin(const void* address);
  // Whether blocks may be given other addresses.
  bool shares() const noexcept { return shares_; }
  // Frees the chunks without pinned blocks, if it shares.
  void drop_unpinned();

 private:
  struct Chunk {
    std::shared_ptr<void> memory;
    std::size_t size;
  };

  char* add_chunk(std::size_t bytes);
  Buffer allocate_traced(std::size_t bytes);
  Buffer allocate_separately(std::size_t bytes);
  Buffer lend(char* data, std::size_t bytes);

  Device device_;
  Kind kind_;
  bool shares_;
  std::vector<Chunk> chunks_;
  Blocks blocks_;           // every block by address; neighbours in a chunk are neighbours here
  char* unused_ = nullptr;  // in a trace: the rest of the last chunk
  std::size_t unused_bytes_ = 0;
  std::size_t reserved_ = 0;
};

}  // namespace giro
