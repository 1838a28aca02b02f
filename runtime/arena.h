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
// An arena of kind `trace` gives no memory: while work is recorded, none of it has run, so each temporary gets a name,
// and memory is planned when all are known (recording.h). Names are like addresses, and none is one: a part's name is
// as many bytes behind its whole's. A block that is asked for its address, or still held when the work is planned,
// settles in memory of its own.
//
// With GIRO_ARENA=0 in the environment nothing is shared: each request is a separate allocation, freed when it is given
// back, or with its recording. compute-sanitizer and AddressSanitizer then detect accesses beyond a temporary, and uses
// of a stream's temporary after it was given back.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  enum class Kind { stream, recording, trace };

  Arena(Device device, Kind kind);
  ~Arena();
  // Whether GIRO_ARENA is 0 now.
  static bool is_off();

  // First fit in the free blocks; grows by a chunk when nothing fits. Errors: those of Buffer::allocate.
  Buffer allocate(std::size_t bytes);
  void release(void* data) noexcept;

  std::size_t reserved_bytes() const noexcept { return reserved_; }

  // Whether the memory, or what a name stands for, is this arena's.
  bool holds(const void* place) const;

  // The size of a block for `bytes` bytes.
  static std::size_t block_size(std::size_t bytes);
  // Whether temporaries may share memory.
  bool shares() const noexcept { return shares_; }

  // Of a trace.
  struct Named {
    char* name;
    std::size_t bytes;
    bool free = false;
    char* memory = nullptr;  // where it has settled
  };
  // The block that this is the name of, or of a part of; null for anything else.
  const Named* block_named(const void* place) const;
  std::size_t count() const noexcept { return named_.size(); }
  std::size_t index_of(const Named& block) const { return static_cast<std::size_t>(&block - named_.data()); }
  // Where that is: its address, if it has settled, as what another recording has made does now.
  char* place_of(const void* place) const;
  // Lets the block settle, and returns the address; that of anything else is what is given. Errors: out_of_memory.
  char* settle(const void* place);
  void settle_held();

 private:
  struct Block {
    std::size_t size;
    std::size_t chunk;
    bool free;
  };
  using Blocks = std::map<char*, Block>;
  struct Chunk {
    std::shared_ptr<void> memory;
    std::size_t size;
  };

  char* add_chunk(std::size_t bytes);
  char* take(std::size_t bytes);
  void settle(Named& block);
  Buffer allocate_traced(std::size_t bytes);

  Device device_;
  Kind kind_;
  bool shares_;
  std::vector<Chunk> chunks_;
  Blocks blocks_;  // every block by address; neighbours in a chunk are neighbours here
  // Traces: those before it are taken, since none is released.
  Blocks::iterator first_free_ = blocks_.end();
  // In a trace: its temporaries by name, and the rest of the last range of names.
  std::vector<Named> named_;
  char* next_name_ = nullptr;
  std::size_t unused_names_ = 0;
  std::size_t reserved_ = 0;
};

}  // namespace giro
