#include <giro/runtime/files/load_into.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include <giro/runtime/buffer.h>
#include <giro/runtime/host_array.h>

#include "runtime/collection.h"
#include "runtime/elements.h"
#include "runtime/path_pattern.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

constexpr const char* kCall = "load_into";

// A leaf of the state to load, with its whole shape over all processes.
struct Target {
  std::string path;
  Shape shape;
  DType dtype;
  const Leaf* here;  // null: this process holds no piece of it

  // Whether the given piece is the one that this process holds, which may be empty.
  bool is_piece_here(const Leaf& given) const {
    if (here == nullptr) return given.piece->whole == shape && given.value.count() == 0;
    return here->piece == given.piece && here->value.count() == given.value.count();
  }
  // The shape of a given leaf, for the report.
  Shape shape_of(const Leaf& given) const {
    if (!given.piece || (given.piece->whole == shape && !is_piece_here(given))) return given.value.shape();
    return given.piece->whole;
  }
  // The part of the given leaf to load: all of it, or the piece held here. nullopt if they do not match.
  std::optional<Tensor> take(const Leaf& given, bool convert) const {
    const DType found = given.value.dtype();
    if (found != dtype && !(convert && detail::can_convert(found, dtype))) return std::nullopt;
    if (given.piece) return is_piece_here(given) ? std::optional(given.value) : std::nullopt;
    if (given.value.shape() != shape) return std::nullopt;
    if (here == nullptr) return Tensor();
    if (!here->piece) return given.value;
    const std::int64_t begin = here->piece->begin;
    return given.value.reshape({shape.count()}).rows(begin, begin + here->value.count());
  }
};

std::vector<Target> chosen_targets(const State& state, const std::vector<PathPattern>& only) {
  std::vector<Target> targets;
  for (const Collection* collection : collections_of(state, Collections::saved)) {
    const std::vector<Leaf>& leaves = collection->leaves();
    auto next = leaves.begin();  // in the same order, but some may not be here
    for (const LeafSpec& spec : collection->specs()) {
      const std::string path = collection->path_of(spec);
      const bool is_here = next != leaves.end() && next->path == path;
      targets.push_back({path, spec.shape, spec.dtype, is_here ? &*next++ : nullptr});
    }
  }
  if (only.empty()) return targets;
  for (const PathPattern& pattern : only) {
    const auto fits = [&](const Target& target) { return pattern.match(target.path).has_value(); };
    if (std::ranges::any_of(targets, fits)) continue;
    throw_error(ErrorCode::not_found, "{}: only: '{}' matches no saved leaf of the state{}", kCall, pattern.text(),
                suggestion(pattern.text(), targets, &Target::path));
  }
  std::erase_if(targets, [&](const Target& target) { return !matches_any(only, target.path); });
  return targets;
}

// The given leaves by their paths in the state.
std::map<std::string, const Leaf*> rename_all(const std::vector<Leaf>& leaves, const Renaming& renamed) {
  std::map<std::string, const Leaf*> result;
  for (const Leaf& leaf : leaves) {
    const std::string path = renamed(leaf.path);
    const auto [place, is_new] = result.emplace(path, &leaf);
    if (is_new) continue;
    throw_invalid("{}: {} and {} are both for the leaf {}", kCall, printable(place->second->path), printable(leaf.path),
                  printable(path));
  }
  return result;
}

// "; 2 missing: a, b"
std::string listed(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const std::size_t named = std::min(names.size(), LoadReport::kNamed);
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(named));
  const std::string more = named < names.size() ? fmt::format(" and {} more", names.size() - named) : "";
  return fmt::format("; {} {}: {}{}", names.size(), what, fmt::join(first, ", "), more);
}

// Names the unused given leaf that is most similar to the first missing one.
std::string hint(const LoadReport& report, const Renaming& renamed) {
  constexpr std::size_t kNames = 1'000, kLength = 1'000;  // a file may hold far more than is worth comparing
  std::vector<std::string> left_over;
  for (const std::string& path : report.extra) {
    if (left_over.size() < kNames && path.size() < kLength) left_over.push_back(path);
  }
  if (report.missing.empty() || left_over.empty()) return {};
  const std::string first = renamed.before(report.missing.front());
  return fmt::format("; the nearest to {} is {}", first, printable(nearest(first, left_over)));
}

struct LeafCopy {
  Tensor to, from;
  std::string path;

  bool converts() const { return to.dtype() != from.dtype(); }
};

// Copies values to leaves of a state, which change only if all of them can be converted.
void copy_all(std::vector<LeafCopy> copies, const Stream& stream) {
  stream.synchronize();  // errors of earlier work, or of a recording, must appear before anything changes
  std::size_t max_bytes = 0;
  std::vector<HostArray> on_host;
  for (LeafCopy& each : copies) {
    if (!each.converts()) continue;
    if (!each.from.device().is_cpu()) {
      on_host.push_back(HostArray::copy_of(each.from, stream));
      each.from = on_host.back().tensor();
    }
    if (const auto found = detail::out_of_range(each.from, each.to.dtype())) {
      throw_invalid("{}: leaf '{}' holds {}, which {} cannot hold", kCall, each.path, *found, name_of(each.to.dtype()));
    }
    max_bytes = std::max(max_bytes, each.to.bytes());
  }
  const Buffer memory = Buffer::allocate(Device::cpu(), max_bytes);
  for (const LeafCopy& each : copies) {
    if (!each.converts()) {
      copy(each.to, each.from, stream);
      continue;
    }
    const Tensor converted(memory.data(), each.to.dtype(), each.to.shape(), Device::cpu());
    stream.synchronize();  // the previous copy may still read the memory
    detail::convert(converted, each.from);
    copy(each.to, converted, stream);
  }
  stream.synchronize();
}

// params/kernel (from "weight")
std::string with_origin(const std::string& path, const std::string& before) {
  return before == path ? path : fmt::format("{} (from {})", path, printable(before));
}

}  // namespace

std::string LoadReport::text() const {
  std::vector<std::string> quoted;
  for (const std::string& path : extra) quoted.push_back(printable(path));
  return fmt::format("{} leaves loaded{}{}{}", loaded.size(), listed("missing", missing), listed("extra", quoted),
                     listed("mismatched", mismatched));
}

LoadReport load_into(State& state, const std::vector<Leaf>& leaves, const LoadOptions& options) {
  const std::vector<PathPattern> only(options.only.begin(), options.only.end());
  const std::vector<Target> targets = chosen_targets(state, only);
  const std::vector<PathPattern> optional(options.optional.begin(), options.optional.end());
  const Renaming renamed(kCall, options.rename);
  std::map<std::string, const Leaf*> given = rename_all(leaves, renamed);

  LoadReport report;
  std::vector<LeafCopy> copies;
  bool shapes_differ = false, may_convert = false;
  for (const Target& target : targets) {
    const auto found = given.extract(target.path);
    if (!found) {
      if (!matches_any(optional, target.path)) report.missing.push_back(target.path);
      continue;
    }
    const Leaf& leaf = *found.mapped();
    if (!leaf.value.device().is_cpu() && leaf.value.device() != state.device()) {
      throw_error(ErrorCode::device_mismatch, "{}: leaf '{}' is {}, expected it on the host or on {}", kCall,
                  target.path, to_string(leaf.value), to_string(state.device()));
    }
    if (const std::optional<Tensor> taken = target.take(leaf, options.convert)) {
      if (target.here != nullptr) copies.push_back({target.here->value, *taken, target.path});
      report.loaded.push_back(target.path);
      continue;
    }
    const Shape shape = target.shape_of(leaf);
    shapes_differ = shapes_differ || shape != target.shape;
    may_convert = may_convert || target.take(leaf, /*convert=*/true);
    report.mismatched.push_back(fmt::format("{} is {}{}, expected {}{}", with_origin(target.path, leaf.path),
                                            name_of(leaf.value.dtype()), to_string(shape), name_of(target.dtype),
                                            to_string(target.shape)));
  }
  for (const auto& [path, leaf] : given) {  // those that no target has taken
    if ((only.empty() || matches_any(only, path)) && !matches_any(optional, path)) report.extra.push_back(leaf->path);
  }

  const bool absent = !report.missing.empty() || !report.extra.empty();
  if (options.strict && (absent || !report.mismatched.empty())) {
    LoadReport refused = report;
    refused.loaded.clear();
    for (std::string& path : refused.missing) path = with_origin(path, renamed.before(path));
    throw_error(absent          ? ErrorCode::not_found
                : shapes_differ ? ErrorCode::shape_mismatch
                                : ErrorCode::dtype_mismatch,
                "{}: {}{}{}", kCall, refused.text(), hint(report, renamed),
                may_convert ? "; LoadOptions::convert would convert the dtypes" : "");
  }

  copy_all(std::move(copies), state.stream());
  return report;
}

}  // namespace giro
