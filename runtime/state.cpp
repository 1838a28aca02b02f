#include <giro/runtime/state.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <giro/runtime/error.h>

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

State::State(Device device) : stream_(device), identity_(std::make_shared<char>()) {}

const Collection& State::add(const std::string& name, const std::vector<LeafSpec>& leaves, bool saved) {
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
  stream_.fill(collection->buffer_.data(), 0, total);
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
  return std::any_of(collections_.begin(), collections_.end(), [&](const auto& collection) {
    return std::any_of(collection->leaves().begin(), collection->leaves().end(),
                       [&](const Leaf& leaf) { return leaf.path == path; });
  });
}

Tensor State::at(const std::string& path) const {
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
  std::vector<std::string> known;
  for (const auto& collection : collections_) {
    if (collection->name() == name) return *collection;
    known.push_back(collection->name());
  }
  throw Error(ErrorCode::not_found, fmt::format("no collection '{}' in the state{}", name, suggestion(name, known)));
}

bool State::contains_collection(const std::string& name) const {
  return std::any_of(collections_.begin(), collections_.end(),
                     [&](const auto& collection) { return collection->name() == name; });
}

std::vector<Leaf> State::flatten(const std::string& prefix) const {
  std::vector<Leaf> leaves;
  for (const auto& collection : collections_) {
    std::copy_if(collection->leaves().begin(), collection->leaves().end(), std::back_inserter(leaves),
                 [&](const Leaf& leaf) { return is_below(leaf.path, prefix); });
  }
  return leaves;
}

State State::same_structure() const {
  State result(device());
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
  const std::vector<Leaf> own = flatten();
  for (std::size_t i = 0; i < std::max(own.size(), leaves.size()); ++i) {
    if (i >= own.size() || i >= leaves.size() || own[i].path != leaves[i].path) {
      throw Error(ErrorCode::not_found, fmt::format("unflatten: leaf {} is '{}', expected '{}'", i,
                                                    i < leaves.size() ? leaves[i].path : "missing",
                                                    i < own.size() ? own[i].path : "no more leaves"));
    }
  }
  State result = same_structure();
  const std::vector<Leaf> targets = result.flatten();
  stream_.synchronize();  // leaves of this state may still be written
  for (std::size_t i = 0; i < targets.size(); ++i) {
    try {
      copy(targets[i].value, leaves[i].value, result.stream());
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("unflatten: leaf '{}': {}", own[i].path, error.what()));
    }
  }
  result.stream().synchronize();
  return result;
}

State State::map(
    const std::function<void(const std::string&, const Tensor&, const Tensor&, const Stream&)>& fill) const {
  State result = same_structure();
  const std::vector<Leaf> inputs = flatten(), outputs = result.flatten();
  stream_.synchronize();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    fill(inputs[i].path, outputs[i].value, inputs[i].value, result.stream());
  }
  result.stream().synchronize();
  return result;
}

State State::clone() const {
  return map(
      [](const std::string&, const Tensor& out, const Tensor& in, const Stream& stream) { copy(out, in, stream); });
}

}  // namespace giro
