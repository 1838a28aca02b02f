#include <giro/runtime/state.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include <giro/runtime/error.h>

#include "runtime/backend.h"
#include "runtime/collection.h"
#include "runtime/stream_recording.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit = Collection::kLeafAlignment) {
  return (bytes + unit - 1) / unit * unit;
}

void check_part(const std::string& name, const CollectionOptions& options) {
  if (options.parts >= 1 && options.part.value_or(0) >= 0 && options.part.value_or(0) < options.parts) return;
  throw_invalid("collection '{}': there is no part {} of {}", name, options.part.value_or(0), options.parts);
}

// All existing states, so that a state inside another's object can be found.
constinit std::mutex states_mutex;
constinit State* first_state = nullptr;

// The state that an identity belongs to; null if there is none any more.
const State* owner_of(const std::weak_ptr<const void>& identity) {
  const auto found = std::static_pointer_cast<const detail::StateIdentity>(identity.lock());
  return found ? found->owner.load() : nullptr;
}

bool is_below(const std::string& path, const std::string& prefix) {
  return prefix.empty() || path == prefix ||
         (path.size() > prefix.size() && path.starts_with(prefix) && path[prefix.size()] == '/');
}

}  // namespace

State::State(DeviceContext context)
    : context_(context),
      identity_(std::make_shared<detail::StateIdentity>(this, detail::StreamRecording::current_id())) {
  link();
}

State::State(State&& other) noexcept : context_(other.context_) {
  *this = std::move(other);
  link();
}

State& State::operator=(State&& other) noexcept {
  if (this == &other) return *this;
  context_ = other.context_;
  collections_ = std::move(other.collections_);
  identity_ = std::move(other.identity_);
  parts_ = std::move(other.parts_);
  if (identity_ != nullptr) {  // the leaves now belong to this object
    identity_->owner = this;
    identity_->moved_in = detail::StreamRecording::current_id();
  }
  return *this;
}

State::~State() {
  const std::lock_guard lock(states_mutex);
  (previous_ != nullptr ? previous_->next_ : first_state) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

void State::link() noexcept {
  const std::lock_guard lock(states_mutex);
  next_ = std::exchange(first_state, this);
  if (next_ != nullptr) next_->previous_ = this;
}

void State::expect_whole() const {
  if (moved_from()) throw_invalid("this state was moved from");
  for (const Part& part : parts_) {
    if (!part.identity.expired()) continue;
    throw_invalid(
        "the state that was attached as '{}' was destroyed or replaced; expected attach() of the one in its place",
        part.name);
  }
  note_use();
}

// A recording in progress keeps the leaves' memory alive.
void State::note_use() const {
  if (detail::StreamRecording* const recording = detail::StreamRecording::current()) {
    recording->states.add(identity_, collections_);
  }
}

const Collection& State::add(const std::string& name, const std::vector<LeafSpec>& specs,
                             const CollectionOptions& options) {
  expect_whole();
  check_part(name, options);
  if (name.empty() || contains_collection(name)) {
    throw_invalid("a collection needs a name of its own, found '{}'", name);
  }
  auto collection = std::make_shared<Collection>();
  std::size_t total = 0;
  for (const LeafSpec& leaf : specs) {
    total += round_up(static_cast<std::size_t>(leaf.shape.count()) * size_of(leaf.dtype));
  }
  const auto parts = static_cast<std::size_t>(options.parts);
  total = round_up(total, parts * Collection::kLeafAlignment);
  // The range of the bytes of all parts that is stored here.
  const std::size_t begin = options.part ? total / parts * static_cast<std::size_t>(*options.part) : 0;
  const std::size_t end = options.part ? begin + total / parts : total;
  collection->name_ = name;
  collection->specs_ = specs;
  collection->options_ = options;
  collection->buffer_ = std::make_shared<const Buffer>(Buffer::allocate(device(), end - begin));
  stream().fill(collection->buffer_->data(), 0, end - begin);
  std::set<std::string> paths;
  for (const auto& other : collections_) {
    for (const Leaf& leaf : other->leaves()) paths.insert(leaf.path);
  }
  std::size_t offset = 0;
  for (const LeafSpec& leaf : specs) {
    std::string path = collection->path_of(leaf);
    if (!paths.insert(path).second) throw_invalid("the path '{}' is already in the tree", path);
    const std::size_t bytes = static_cast<std::size_t>(leaf.shape.count()) * size_of(leaf.dtype);
    const std::size_t from = std::clamp(offset, begin, end), to = std::clamp(offset + bytes, begin, end);
    char* const data = static_cast<char*>(collection->buffer_->data()) + (from - begin);
    if (!options.part) {
      collection->leaves_.push_back(
          {std::move(path), Tensor::of_leaf(collection->buffer_, data, leaf.dtype, leaf.shape)});
    } else if (from < to || (bytes == 0 && begin == 0)) {
      const auto element = [&](std::size_t byte) { return static_cast<std::int64_t>(byte / size_of(leaf.dtype)); };
      collection->leaves_.push_back({std::move(path),
                                     Tensor::of_leaf(collection->buffer_, data, leaf.dtype, {element(to - from)}),
                                     Piece{leaf.shape, bytes == 0 ? 0 : element(from - offset)}});
    }
    offset += round_up(bytes);
  }
  collections_.push_back(std::move(collection));
  note_use();
  return *collections_.back();
}

void State::attach(const std::string& name, const State& part) {
  if (moved_from()) throw_invalid("this state was moved from");
  part.expect_whole();
  std::vector<std::shared_ptr<Collection>> collections;
  for (const auto& own : part.collections_) {
    const auto& attached = collections.emplace_back(std::make_shared<Collection>(*own));
    attached->name_ = fmt::format("{}/{}", name, own->name());
    for (Leaf& leaf : attached->leaves_) leaf.path = fmt::format("{}/{}", name, leaf.path);
  }
  const auto is_here = [&](const auto& collection) { return is_below(collection->name(), name); };
  const auto is_same = [](const auto& a, const auto& b) {
    return a->name() == b->name() && a->bytes().bytes() == b->bytes().bytes();
  };
  std::vector<std::shared_ptr<Collection>> before;
  std::copy_if(collections_.begin(), collections_.end(), std::back_inserter(before), is_here);
  const bool takes_place = std::equal(before.begin(), before.end(), collections.begin(), collections.end(), is_same) ||
                           std::any_of(parts_.begin(), parts_.end(), [&](const Part& p) { return p.name == name; });
  if (name.empty() || (!before.empty() && !takes_place)) {
    throw_invalid("attach: a part of the tree needs a name of its own, found '{}'", name);
  }
  std::vector<const State*> tree;  // the part, and what is part of it by now
  const std::function<void(const State&)> add_tree = [&](const State& state) {
    if (std::ranges::find(tree, &state) != tree.end()) return;
    tree.push_back(&state);
    for (const Part& inner : state.parts_) {
      if (const State* const owner = owner_of(inner.identity)) add_tree(*owner);
    }
  };
  add_tree(part);
  const auto is_in_part = [&](const State* state) { return std::ranges::find(tree, state) != tree.end(); };
  if (is_in_part(this)) throw_invalid("attach '{}': this state is a part of that one, expected it the other way", name);
  for (const Part& known : parts_) {
    if (is_below(known.name, name) || !is_in_part(owner_of(known.identity))) continue;
    throw_invalid("attach '{}': that state is in the tree as '{}', expected one name for each part", name, known.name);
  }
  if (part.context() != context()) {
    throw_invalid("attach '{}': the state has a context of its own, expected one created with this state's context()",
                  name);
  }
  // Recordings treat leaves in other memory as another state.
  std::vector<Declared> declared = identity_->declared;
  std::erase_if(declared, [&](const Declared& known) { return is_below(known.name, name); });
  for (const Declared& each : part.declared()) {
    declared.push_back({fmt::format("{}/{}", name, each.name), each.value, each.may_differ});
  }
  if (!before.empty()) identity_ = std::make_shared<detail::StateIdentity>(this, detail::StreamRecording::current_id());
  identity_->declared = std::move(declared);
  std::erase_if(collections_, is_here);
  collections_.insert(collections_.end(), collections.begin(), collections.end());
  std::erase_if(parts_, [&](const Part& known) { return is_below(known.name, name); });
  parts_.push_back({name, part.identity_});
  for (const Part& inner : part.parts_) parts_.push_back({fmt::format("{}/{}", name, inner.name), inner.identity});
}

void State::declare(const std::string& name, const std::string& value) {
  expect_whole();
  const auto known = std::ranges::find(identity_->declared, name, &Declared::name);
  if (known == identity_->declared.end()) {
    identity_->declared.push_back({name, value});
  } else {
    known->value = value;
  }
}

void State::may_differ(const std::string& name) {
  expect_whole();
  const auto known = std::ranges::find(identity_->declared, name, &Declared::name);
  if (known == identity_->declared.end()) {
    throw_error(ErrorCode::not_found, "may_differ: the state declares no '{}'{}", name,
                suggestion(name, identity_->declared, &Declared::name));
  }
  known->may_differ = true;
}

const std::vector<State::Declared>& State::declared() const {
  expect_whole();
  return identity_->declared;
}

void State::expect_one_tree(const void* object, std::size_t bytes) const {
  expect_whole();
  const std::lock_guard lock(states_mutex);
  for (const State* other = first_state; other != nullptr; other = other->next_) {
    const auto offset = reinterpret_cast<std::uintptr_t>(other) - reinterpret_cast<std::uintptr_t>(object);
    if (other == this || offset >= bytes || other->moved_from()) continue;
    const auto part = std::find_if(parts_.begin(), parts_.end(),
                                   [&](const Part& known) { return known.identity.lock() == other->identity_; });
    const auto is_part = [&](const auto& collection) { return is_below(collection->name(), part->name); };
    if (part != parts_.end() && std::ranges::count_if(collections_, is_part) == std::ssize(other->collections_)) {
      continue;
    }
    throw_invalid(
        "this state holds another, with {} collections, that is not part of its tree: nothing would save it; expected "
        "attach(name, it), or a pointer to what need not be saved",
        other->collections_.size());
  }
}

bool State::contains(const std::string& path) const {
  expect_whole();
  return std::any_of(collections_.begin(), collections_.end(), [&](const auto& collection) {
    return std::ranges::any_of(collection->leaves(), [&](const Leaf& leaf) { return leaf.path == path; });
  });
}

Tensor State::at(const std::string& path) const {
  expect_whole();
  for (const auto& collection : collections_) {
    for (const Leaf& leaf : collection->leaves()) {
      if (leaf.path == path) return leaf.value;
    }
  }
  throw_error(ErrorCode::not_found, "no leaf '{}' in the state{}", path, suggestion(path, flatten(), &Leaf::path));
}

const Collection& State::collection(const std::string& name) const {
  expect_whole();
  const auto found = std::ranges::find(collections_, name, &Collection::name);
  if (found != collections_.end()) return **found;
  throw_error(ErrorCode::not_found, "no collection '{}' in the state{}", name,
              suggestion(name, collections_, &Collection::name));
}

bool State::contains_collection(const std::string& name) const {
  expect_whole();
  return std::ranges::find(collections_, name, &Collection::name) != collections_.end();
}

const std::vector<std::shared_ptr<Collection>>& State::collections() const {
  expect_whole();
  return collections_;
}

const std::shared_ptr<const detail::StateIdentity>& State::identity() const {
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
  result.identity_->declared = identity_->declared;
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
      throw_error(error.code(), "unflatten: leaf '{}': {}", targets[i].path, error.what());
    }
  }
  stream().synchronize();  // the caller may free the leaves afterwards
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
  const detail::ContextUse use(context);
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
    throw_error(ErrorCode::device_mismatch, "assign: the other state is on {}, this one on {}",
                to_string(other.device()), to_string(device()));
  }
  detail::wait_for_work(stream(), other.stream());
  for (std::size_t i = 0; i < to.size(); ++i) copy(to[i]->bytes(), from[i]->bytes(), stream());
  detail::wait_for_work(other.stream(), stream());
}

}  // namespace giro
