#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device_context.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

namespace detail {
struct StateIdentity;
}

// The name, type and shape of a leaf within its collection. The empty name makes the collection itself the leaf.
struct LeafSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

// Which of `count` equal parts of something this process holds; each of `count` processes holds one.
struct Shard {
  int index = 0, count = 1;
};

// Where a piece of a leaf belongs: the shape of the whole leaf, and the element at which the piece begins.
struct Piece {
  Shape whole;
  std::int64_t begin = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

// A leaf and its path in the tree, e.g. "params/dense0/kernel".
struct Leaf {
  std::string path;
  Tensor value;
  std::optional<Piece> piece = {};  // for a sharded collection; `value` then has one axis
};

struct CollectionOptions {
  bool saved = true;  // whether a checkpoint needs it; gradients, for example, can be recomputed
  // Zeros at the end pad the buffer to this many equal parts, each a multiple of kLeafAlignment bytes.
  int parts = 1;
  // The part that this process holds; none: all parts.
  std::optional<int> part = {};
};

// Leaves that belong together, in one buffer at addresses that never change. Each leaf starts at a multiple of
// kLeafAlignment bytes, and the gaps hold zeros, so one kernel can run over the whole buffer.
class Collection {
 public:
  static constexpr std::size_t kLeafAlignment = 64;

  const std::string& name() const noexcept { return name_; }
  // For a shard, the pieces of leaves that lie in it.
  const std::vector<Leaf>& leaves() const noexcept { return leaves_; }
  // The whole buffer as one axis, gaps included. Error(dtype_mismatch) if the leaves differ in dtype.
  Tensor flat() const;
  // The part of flat() that belongs to a shard. Error(invalid_argument) unless the buffer is made of shard.count parts.
  Tensor flat(const Shard& shard) const;
  // The buffer's bytes, u8.
  Tensor bytes() const;
  bool saved() const noexcept { return options_.saved; }
  bool is_sharded() const noexcept { return options_.part.has_value(); }
  const CollectionOptions& options() const noexcept { return options_; }
  // The specs it was made from: whole leaves, over all processes.
  const std::vector<LeafSpec>& specs() const noexcept { return specs_; }
  std::string path_of(const LeafSpec& leaf) const;

 private:
  friend class State;
  std::string name_;
  std::vector<LeafSpec> specs_;
  std::vector<Leaf> leaves_;
  std::shared_ptr<const Buffer> buffer_;
  CollectionOptions options_;
};

// The data that a loop passes from step to step: a tree of named tensors on one device, and the context with the stream
// for all work on them. Move-only. Addresses of leaves survive a move, so steps recorded for a state stay valid; a step
// that uses it in addition to its own state is recorded again. A moved-from state has only its context: any other use
// is an Error(invalid_argument).
class State {
 public:
  // Passing a Device opens a context, which this state shares with the states made from it.
  explicit State(DeviceContext context);
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;
  ~State();

  // Adds a collection with its leaves filled with zeros. Names are paths with '/' between levels.
  // Error(invalid_argument) for an empty or repeated name, or a part outside of options.parts.
  const Collection& add(const std::string& collection, const std::vector<LeafSpec>& leaves,
                        const CollectionOptions& options = {});
  // Makes another state, e.g. a member of a derived class, part of this tree: its collections, in their own memory,
  // also become this state's, with `name` and '/' before their names. Checkpoints, snapshots and everything else here
  // then treat both as one state:
  //
  //   struct Gan : giro::TrainState {
  //     Gan(giro::TrainState generator, giro::TrainState discriminator)
  //         : TrainState(std::move(generator)), d(std::move(discriminator)) { attach("d", d); }
  //     giro::TrainState d;  // its leaves are also "d/params/..." in this tree
  //   };
  //
  // Both may be moved afterwards. If the part is destroyed or replaced by another state, using the tree is an
  // Error(invalid_argument) until a state is attached under the name again. A copy (clone) has its own memory for the
  // whole tree; attaching a state of the same structure to it replaces that part. Error(invalid_argument) for a name
  // that is empty or already in the tree, a state of another context, one that this state is a part of, or one that is
  // in the tree under another name.
  void attach(const std::string& name, const State& part);
  // Error(invalid_argument) if the object of `bytes` bytes at `object`, which contains this state, contains another
  // State that is not attached: nothing would save it. States held by pointers or containers are not found.
  void expect_one_tree(const void* object, std::size_t bytes) const;

  // Declares what the leaves mean and do not show, such as ("accumulate", "4"); the latest value of a name counts. A
  // checkpoint saves it. It is restored only into a state that declares the same, as far as both declare it. What a
  // part declares before its attach() is also declared by the tree, with the part's name and '/' before it.
  struct Declared {
    std::string name, value;
    bool may_differ = false;
  };
  void declare(const std::string& name, const std::string& value);
  // Accepts checkpoints of a state that declares another value: the caller knows what that means. Error(not_found),
  // naming the nearest, if this state declares no such name.
  void may_differ(const std::string& name);
  const std::vector<Declared>& declared() const;

  Device device() const noexcept { return context_.device(); }
  const DeviceContext& context() const noexcept { return context_; }
  const Stream& stream() const noexcept { return context_.stream(); }

  // The leaf at a path. Error(not_found) naming the nearest existing path.
  Tensor at(const std::string& path) const;
  bool contains(const std::string& path) const;
  const Collection& collection(const std::string& name) const;  // same error
  bool contains_collection(const std::string& name) const;
  const std::vector<std::shared_ptr<Collection>>& collections() const;

  // All leaves, or those below `prefix`, in the order of insertion, which depends only on the model.
  std::vector<Leaf> flatten(const std::string& prefix = "") const;
  // A state of this structure and context with the values of `leaves`, which must be all of this state's leaves, in its
  // order: else Error(not_found, shape_mismatch, dtype_mismatch or device_mismatch) naming both. Waits until they are
  // copied. The caller must first wait for leaves that another stream writes.
  State unflatten(const std::vector<Leaf>& leaves) const;
  // A state of this structure and context; fill(path, out, in, stream) writes each of its leaves on the stream.
  State map(const std::function<void(const std::string& path, const Tensor& out, const Tensor& in,
                                     const Stream& stream)>& fill) const;
  // A copy, queued on the shared stream; or one in another context of the same device, for use by another thread.
  State clone() const { return clone(context_); }
  State clone(const DeviceContext& context) const;
  // Copies the other state's values to this state's addresses, after the work queued on either, without waiting for it.
  // Steps recorded for this state then continue with these values. Error(not_found, shape_mismatch or dtype_mismatch)
  // naming the first leaf that differs, device_mismatch for a state on another device.
  void assign(const State& other);

  // Lives exactly as long as the leaves' addresses are valid: a recording that holds it weakly can tell that its state
  // no longer exists, even if another state has taken the same addresses.
  const std::shared_ptr<const detail::StateIdentity>& identity() const;
  bool moved_from() const noexcept { return identity_ == nullptr; }

 private:
  struct Part {
    std::string name;
    std::weak_ptr<const void> identity;
  };

  void expect_whole() const;
  void note_use() const;
  void link() noexcept;
  State same_structure(const DeviceContext& context) const;

  DeviceContext context_;
  std::vector<std::shared_ptr<Collection>> collections_;
  std::shared_ptr<const detail::StateIdentity> identity_;  // null once moved from
  std::vector<Part> parts_;
  State *previous_ = nullptr, *next_ = nullptr;  // in the list of all existing states
};

}  // namespace giro
