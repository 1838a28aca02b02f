#include <giro/runtime/state.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include <giro/runtime/error.h>

#include "runtime/internal/structure.h"
#include "runtime/internal/text.h"

namespace giro {
namespace {

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit = Collection::kLeafAlignment) {
  return (bytes + unit - 1) / unit * unit;
}

void check_part(const std::string& name, const CollectionOptions& options) {
  if (options.parts >= 1 && options.part.value_or(0) >= 0 && options.part.value_or(0) < options.parts) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("collection '{}': there is no part {} of {}", name, options.part.value_or(0), options.parts));
}

bool is_below(const std::string& path, const std::string& prefix) {
  return prefix.empty() || path == prefix ||
         (path.size() > prefix.size() && path.starts_with(prefix) && path[prefix.size()] == '/');
}

}  // namespace

std::string Collection::path_of(const LeafSpec& leaf) const {
  return leaf.name.empty() ? name_ : fmt::format("{}/{}", name_, leaf.name);
}

Tensor Collection::flat() const {
  const DType dtype = specs_.empty() ? DType::u8 : specs_.front().dtype;
  for (const LeafSpec& leaf : specs_) {
    if (leaf.dtype == dtype) continue;
    throw Error(ErrorCode::dtype_mismatch,
                fmt::format("collection '{}' is not of one dtype: '{}' is {}, '{}' is {}", name_,
                            path_of(specs_.front()), name_of(dtype), path_of(leaf), name_of(leaf.dtype)));
  }
  const auto count = static_cast<std::int64_t>(buffer_.size() / size_of(dtype));
  return Tensor(buffer_.data(), dtype, {count}, buffer_.device());
}

Tensor Collection::flat(const Shard& shard) const {
  const Tensor all = flat();
  if (is_sharded() || shard.count != options_.parts || shard.index < 0 || shard.index >= shard.count) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("collection '{}' is made of {} parts{}, found shard {} of {}; one that is laid out as another "
                    "is added with the specs() and options() of that",
                    name_, options_.parts, is_sharded() ? ", of which one is here" : "", shard.index, shard.count));
  }
  const std::int64_t each = all.count() / shard.count;
  return all.rows(shard.index * each, (shard.index + 1) * each);
}

Tensor Collection::bytes() const {
  return Tensor(buffer_.data(), DType::u8, {static_cast<std::int64_t>(buffer_.size())}, buffer_.device());
}

State::State(DeviceContext context) : context_(context), identity_(std::make_shared<char>()) {}
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;
State::~State() = default;

void State::expect_whole() const {
  if (moved_from()) throw Error(ErrorCode::invalid_argument, "this state was moved from");
}

const Collection& State::add(const std::string& name, const std::vector<LeafSpec>& specs,
                             const CollectionOptions& options) {
  expect_whole();
  check_part(name, options);
  const auto same_name = [&](const auto& other) { return other->name() == name; };
  if (name.empty() || std::any_of(collections_.begin(), collections_.end(), same_name)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("a collection needs a name of its own, found '{}'", name));
  }
  auto collection = std::make_shared<Collection>();
  std::size_t total = 0;
  for (const LeafSpec& leaf : specs) {
    total += round_up(static_cast<std::size_t>(leaf.shape.count()) * size_of(leaf.dtype));
  }
  const auto parts = static_cast<std::size_t>(options.parts);
  total = round_up(total, parts * Collection::kLeafAlignment);
  // Of the bytes of all parts, what lies here.
  const std::size_t begin = options.part ? total / parts * static_cast<std::size_t>(*options.part) : 0;
  const std::size_t end = options.part ? begin + total / parts : total;
  collection->name_ = name;
  collection->specs_ = specs;
  collection->options_ = options;
  collection->buffer_ = Buffer::allocate(device(), end - begin);
  stream().fill(collection->buffer_.data(), 0, end - begin);
  std::set<std::string> paths;
  std::size_t offset = 0;
  for (const LeafSpec& leaf : specs) {
    std::string path = collection->path_of(leaf);
    if (contains(path) || !paths.insert(path).second) {
      throw Error(ErrorCode::invalid_argument, fmt::format("the path '{}' is in the tree already", path));
    }
    const std::size_t bytes = static_cast<std::size_t>(leaf.shape.count()) * size_of(leaf.dtype);
    const std::size_t from = std::clamp(offset, begin, end), to = std::clamp(offset + bytes, begin, end);
    char* const data = static_cast<char*>(collection->buffer_.data()) + (from - begin);
    if (!options.part) {
      collection->leaves_.push_back({std::move(path), Tensor(data, leaf.dtype, leaf.shape, device())});
    } else if (from < to || (bytes == 0 && begin == 0)) {
      const auto element = [&](std::size_t byte) { return static_cast<std::int64_t>(byte / size_of(leaf.dtype)); };
      collection->leaves_.push_back({std::move(path), Tensor(data, leaf.dtype, {element(to - from)}, device()),
                                     Piece{leaf.shape, bytes == 0 ? 0 : element(from - offset)}});
    }
    offset += round_up(bytes);
  }
  collections_.push_back(std::move(collection));
  return *collections_.back();
}

bool State::contains(const std::string& path) const {
  expect_whole();
  return std::any_of(collections_.begin(), collections_.end(), [&](const auto& collection) {
    return std::any_of(collection->leaves().begin(), collection->leaves().end(),
                       [&](const Leaf& leaf) { return leaf.path == path; });
  });
}

Tensor State::at(const std::string& path) const {
  expect_whole();
  for (const auto& collection : collections_) {
    for (const Leaf& leaf : collection->leaves()) {
      if (leaf.path == path) return leaf.value;
    }
  }
  std::vector<std::string> known;
  for (const Leaf& leaf : flatten()) known.push_back(leaf.path);
  throw Error(ErrorCode::not_found, fmt::format("no leaf '{}' in the state{}", path, suggestion(path, known)));
}

const Collection& State::collection(const std::string& name) const {
  expect_whole();
  for (const auto& collection : collections_) {
    if (collection->name() == name) return *collection;
  }
  std::vector<std::string> known;
  for (const auto& collection : collections_) known.push_back(collection->name());
  throw Error(ErrorCode::not_found, fmt::format("no collection '{}' in the state{}", name, suggestion(name, known)));
}

bool State::contains_collection(const std::string& name) const {
  expect_whole();
  return std::any_of(collections_.begin(), collections_.end(),
                     [&](const auto& collection) { return collection->name() == name; });
}

const std::vector<std::shared_ptr<Collection>>& State::collections() const {
  expect_whole();
  return collections_;
}

const std::shared_ptr<const void>& State::identity() const {
  expect_whole();
  return identity_;
}

std::vector<Leaf> State::flatten(const std::string& prefix) const {
  expect_whole();
  std::vector<Leaf> leaves;
  for (const auto& collection : collections_) {
    std::copy_if(collection->leaves().begin(), collection->leaves().end(), std::back_inserter(leaves),
                 [&](const Leaf& leaf) { return is_below(leaf.path, prefix); });
  }
  return leaves;
}

State State::same_structure(const DeviceContext& context) const {
  expect_whole();
  State result(context);
  for (const auto& collection : collections_) {
    result.add(collection->name(), collection->specs(), collection->options());
  }
  return result;
}

State State::unflatten(const std::vector<Leaf>& leaves) const {
  expect_same_leaves("unflatten", flatten(), leaves);
  State result = same_structure(context_);
  const std::vector<Leaf> targets = result.flatten();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    try {
      copy(targets[i].value, leaves[i].value, stream());
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("unflatten: leaf '{}': {}", targets[i].path, error.what()));
    }
  }
  stream().synchronize();  // the leaves may be anybody's
  return result;
}

State State::map(
    const std::function<void(const std::string&, const Tensor&, const Tensor&, const Stream&)>& fill) const {
  State result = same_structure(context_);
  const std::vector<Leaf> inputs = flatten(), outputs = result.flatten();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    fill(inputs[i].path, outputs[i].value, inputs[i].value, stream());
  }
  return result;
}

State State::clone(const DeviceContext& context) const {
  State result = same_structure(context);
  result.assign(*this);
  return result;
}

void State::assign(const State& other) {
  expect_whole();
  if (&other == this) return;
  const std::vector<const Collection*> to = collections_of(*this), from = collections_of(other);
  Structure(to).expect_same("assign", Structure(from));
  if (other.device() != device()) {
    throw Error(ErrorCode::device_mismatch, fmt::format("assign: the other state is on {}, this one on {}",
                                                        to_string(other.device()), to_string(device())));
  }
  const bool apart = other.stream() != stream();
  if (apart) {
    Event written(other.stream());
    written.record(other.stream());
    stream().wait(written);
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Tensor target = to[i]->bytes();
    stream().copy(target.raw(), from[i]->bytes().raw(), target.bytes());
  }
  if (apart) {
    Event read(stream());
    read.record(stream());
    other.stream().wait(read);
  }
}

}  // namespace giro
