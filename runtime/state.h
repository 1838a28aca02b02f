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

// Which of `count` even parts of something this process has: each of as many processes has one.
struct Shard {
  int index = 0, count = 1;
};

// Where a piece of a leaf belongs: the shape of the whole leaf, and the element of it that the piece begins with.
struct Piece {
  Shape whole;
  std::int64_t begin = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

// A leaf and its path in the tree, such as "params/dense0/kernel".
struct Leaf {
  std::string path;
  Tensor value;
  std::optional<Piece> piece = {};  // of a collection that is sharded; `value` then has one axis
};

struct CollectionOptions {
  bool saved = true;  // whether a checkpoint needs it: gradients, say, can be computed again
  // Zeros at the end make the buffer one of so many equal parts, each a multiple of kLeafAlignment bytes.
  int parts = 1;
  // The one of them that this process holds; none: all.
  std::optional<int> part = {};
};

// Leaves that belong together, in one buffer at addresses that never change: each leaf starts at a multiple of
// kLeafAlignment bytes, and the gaps hold zeros, so one kernel can run over the whole.
class Collection {
 public:
  static constexpr std::size_t kLeafAlignment = 64;

  const std::string& name() const noexcept { return name_; }
  // Of a shard the pieces of leaves that lie in it.
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
  // What it was made of: the leaves as they are on all processes together.
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

// What a loop threads through its steps: a tree of named tensors on one device, and the context on whose stream all
// work on them is queued. Move-only; addresses of leaves survive a move, so steps that were recorded for it stay valid;
// a step that uses it besides its own state is recorded anew. What was moved from has its context and nothing else:
// asking it for more is an Error(invalid_argument).
class State {
 public:
  // A Device opens a context for this state, which the states that are made from it share.
  explicit State(DeviceContext context);
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;
  ~State();

  // Adds a collection, its leaves filled with zeros. Names are paths with '/' between levels.
  // Error(invalid_argument) for an empty or repeated name, or a part that is none of options.parts.
  const Collection& add(const std::string& collection, const std::vector<LeafSpec>& leaves,
                        const CollectionOptions& options = {});
  // Makes another state, such as a member of a class derived from this one, a part of this tree: its collections, in
  // the memory that they have, are this state's as well, with `name` and '/' before theirs. So checkpoints, snapshots
  // and all else here take both for one state:
  //
  //   struct Gan : giro::TrainState {
  //     Gan(giro::TrainState generator, giro::TrainState discriminator)
  //         : TrainState(std::move(generator)), d(std::move(discriminator)) { attach("d", d); }
  //     giro::TrainState d;  // its leaves are "d/params/..." of this tree, too
  //   };
  //
  // Both may be moved afterwards. Once the part is replaced by another state, or gone, the tree is an
  // Error(invalid_argument) until one is attached under the name again; a copy (clone) has memory of its own for all of
  // it, whose place an attached state of the same structure takes. Error(invalid_argument) for a name that is empty or
  // in the tree already, or a state of another context.
  void attach(const std::string& name, const State& part);
  // Error(invalid_argument) where another State lies within an object of so many bytes, which this one is part of, and
  // is not attached: nothing would save it. One that a pointer or a container holds is not found.
  void expect_one_tree(const void* object, std::size_t bytes) const;

  Device device() const noexcept { return context_.device(); }
  const DeviceContext& context() const noexcept { return context_; }
  const Stream& stream() const noexcept { return context_.stream(); }

  // The leaf at a path. Error(not_found) naming the nearest path there is.
  Tensor at(const std::string& path) const;
  bool contains(const std::string& path) const;
  const Collection& collection(const std::string& name) const;  // same error
  bool contains_collection(const std::string& name) const;
  const std::vector<std::shared_ptr<Collection>>& collections() const;

  // All leaves, or those below `prefix`, in the order of insertion, which depends on nothing but the model.
  std::vector<Leaf> flatten(const std::string& prefix = "") const;
  // A state of this structure and context with the values of `leaves`, which must be all of this state's, in its
  // order: else Error(not_found, shape_mismatch, dtype_mismatch or device_mismatch) naming both. Waits until they are
  // copied; for leaves that another stream writes the caller has to wait before.
  State unflatten(const std::vector<Leaf>& leaves) const;
  // A state of this structure and context, whose leaves `fill(path, out, in)` writes on their stream.
  State map(const std::function<void(const std::string& path, const Tensor& out, const Tensor& in,
                                     const Stream& stream)>& fill) const;
  // A copy, queued on the stream of both; or one in another context of the same device, for another thread to use.
  State clone() const { return clone(context_); }
  State clone(const DeviceContext& context) const;
  // Copies the other's values to this state's addresses, after the work queued on either, without waiting for it: what
  // was recorded for this state goes on with them. Error(not_found, shape_mismatch or dtype_mismatch) naming the first
  // leaf that differs, device_mismatch for a state of another device.
  void assign(const State& other);

  // Lives exactly as long as the leaves' addresses: a recording that holds it weakly can tell that its state is
  // gone, even if another has taken the same addresses.
  const std::shared_ptr<const detail::StateIdentity>& identity() const;
  bool moved_from() const noexcept { return identity_ == nullptr; }

 private:
  struct Part {
    std::string name;
    std::weak_ptr<const void> identity;
  };

  void expect_whole() const;
  void note_use() const;
  void settle() noexcept;
  void link() noexcept;
  State same_structure(const DeviceContext& context) const;

  DeviceContext context_;
  std::vector<std::shared_ptr<Collection>> collections_;
  std::shared_ptr<const detail::StateIdentity> identity_;  // null once moved from
  std::vector<Part> parts_;
  State *previous_ = nullptr, *next_ = nullptr;  // of all states that there are
};

}  // namespace giro
