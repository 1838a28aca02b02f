#include <giro/runtime/state.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <giro/runtime/error.h>

#include "runtime/internal/structure.h"
#include "runtime/internal/text.h"

namespace giro {
namespace {

std::size_t round_up(std::size_t bytes) {
  return (bytes + Collection::kLeafAlignment - 1) / Collection::kLeafAlignment * Collection::kLeafAlignment;
}

bool is_below(const std::string& path, const std::string& prefix) {
  return prefix.empty() || path == prefix ||
         (path.size() > prefix.size() && path.starts_with(prefix) && path[prefix.size()] == '/');
}

}  // namespace

Tensor Collection::flat() const {
  for (const Leaf& leaf : leaves_) {
    if (leaf.value.dtype() != leaves_.front().value.dtype()) {
      throw Error(
          ErrorCode::dtype_mismatch,
          fmt::format("collection '{}' is not of one dtype: '{}' is {}, '{}' is {}", name_, leaves_.front().path,
                      name_of(leaves_.front().value.dtype()), leaf.path, name_of(leaf.value.dtype())));
    }
  }
  const DType dtype = leaves_.empty() ? DType::u8 : leaves_.front().value.dtype();
  const auto count = static_cast<std::int64_t>(buffer_.size() / size_of(dtype));
  return Tensor(buffer_.data(), dtype, {count}, buffer_.device());
}

Tensor Collection::bytes() const {
  return Tensor(buffer_.data(), DType::u8, {static_cast<std::int64_t>(buffer_.size())}, buffer_.device());
}

State::State(DeviceContext context) : context_(context), identity_(std::make_shared<char>()) {}

void State::expect_whole() const {
  if (moved_from()) throw Error(ErrorCode::invalid_argument, "this state was moved from");
}

const Collection& State::add(const std::string& name, const std::vector<LeafSpec>& leaves, bool saved) {
  expect_whole();
  const auto same_name = [&](const auto& other) { return other->name() == name; };
  if (name.empty() || std::any_of(collections_.begin(), collections_.end(), same_name)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("a collection needs a name of its own, found '{}'", name));
  }
  auto collection = std::make_unique<Collection>();
  std::size_t total = 0;
  for (const LeafSpec& leaf : leaves) {
    total += round_up(static_cast<std::size_t>(leaf.shape.count()) * size_of(leaf.dtype));
  }
  collection->name_ = name;
  collection->saved_ = saved;
  collection->buffer_ = Buffer::allocate(device(), total);
  stream().fill(collection->buffer_.data(), 0, total);
  std::size_t offset = 0;
  for (const LeafSpec& leaf : leaves) {
    std::string path = leaf.name.empty() ? name : fmt::format("{}/{}", name, leaf.name);
    if (contains(path) || std::any_of(collection->leaves_.begin(), collection->leaves_.end(),
                                      [&](const Leaf& other) { return other.path == path; })) {
      throw Error(ErrorCode::invalid_argument, fmt::format("the path '{}' is in the tree already", path));
    }
    Tensor value(static_cast<char*>(collection->buffer_.data()) + offset, leaf.dtype, leaf.shape, device());
    offset += round_up(value.bytes());
    collection->leaves_.push_back({std::move(path), value});
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
  std::vector<std::string> known;
  for (const auto& collection : collections_) {
    for (const Leaf& leaf : collection->leaves()) {
      if (leaf.path == path) return leaf.value;
      known.push_back(leaf.path);
    }
  }
  throw Error(ErrorCode::not_found, fmt::format("no leaf '{}' in the state{}", path, suggestion(path, known)));
}

const Collection& State::collection(const std::string& name) const {
  expect_whole();
  std::vector<std::string> known;
  for (const auto& collection : collections_) {
    if (collection->name() == name) return *collection;
    known.push_back(collection->name());
  }
  throw Error(ErrorCode::not_found, fmt::format("no collection '{}' in the state{}", name, suggestion(name, known)));
}

bool State::contains_collection(const std::string& name) const {
  expect_whole();
  return std::any_of(collections_.begin(), collections_.end(),
                     [&](const auto& collection) { return collection->name() == name; });
}

const std::vector<std::unique_ptr<Collection>>& State::collections() const {
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
    std::vector<LeafSpec> specs;
    for (const Leaf& leaf : collection->leaves()) {
      const bool is_root = leaf.path == collection->name();
      specs.push_back(
          {is_root ? "" : leaf.path.substr(collection->name().size() + 1), leaf.value.dtype(), leaf.value.shape()});
    }
    result.add(collection->name(), specs, collection->saved());
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
