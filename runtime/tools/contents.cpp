#include "runtime/tools/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include <giro/runtime/files/save_load.h>

#include "runtime/elements.h"
#include "runtime/tools/commands.h"

namespace giro::tools {
namespace {

// "f32 (2, 3)"
std::string type_of(const Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
}

std::string statistics(const Tensor& tensor) {
  return detail::with_elements(tensor, [&](const auto* elements) {
    const std::int64_t count = tensor.count();
    const auto value = [&](std::int64_t i) { return static_cast<double>(elements[i]); };
    std::int64_t finite = 0;
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(value(i))) continue;
      ++finite;
      sum += value(i);
    }
    std::string text;
    if (finite > 0) {
      const double mean = sum / static_cast<double>(finite);
      double squares = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        if (std::isfinite(value(i))) squares += (value(i) - mean) * (value(i) - mean);
      }
      text = fmt::format("  mean {:.6g}  deviation {:.6g}", mean, std::sqrt(squares / static_cast<double>(finite)));
    }
    if (finite < count) text += fmt::format("  {} NOT FINITE", count - finite);
    return text;
  });
}

// The parts of a path; the last one holds everything deeper than is shown.
std::vector<std::string_view> parts_of(std::string_view path) {
  constexpr std::size_t kDepth = 16;
  std::vector<std::string_view> parts;
  for (std::size_t slash; parts.size() + 1 < kDepth && (slash = path.find('/')) != path.npos;) {
    parts.push_back(path.substr(0, slash));
    path.remove_prefix(slash + 1);
  }
  parts.push_back(path);
  return parts;
}

void print_record(const CheckpointRecord& record) {
  fmt::print("{} steps, {} samples, {:.3f} s\n", record.steps, record.samples, record.time);
  if (record.best) fmt::print("saved for {}: {:.6g}\n", for_terminal(record.monitor), *record.best);
  if (!record.not_finite.empty()) fmt::print("NOT FINITE: {}\n", for_terminal(record.not_finite));
}

// What a run remembers, by name: its records, its arrays, and its schedules and callbacks as LoopState::persist writes
// them.
void print_memory(const Archive& archive) {
  for (const auto& [path, lines] : archive.lines())
    fmt::print("remembers {}: {} lines\n", for_terminal(path), lines.count);
  const auto memory = nlohmann::ordered_json::parse(archive.text());
  if (const auto state = memory.find("state"); state != memory.end()) {
    for (const auto& [name, value] : state->items()) {
      fmt::print("declares {}: {}\n", for_terminal(name),
                 for_terminal(value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
  for (const std::string part : {"run/schedules", "run/callbacks"}) {
    const nlohmann::ordered_json::json_pointer path("/" + part);
    if (!memory.contains(path)) continue;
    for (const auto& [name, value] : memory.at(path).items())
      fmt::print("remembers {}: {}\n", part, for_terminal(name));
  }
  for (const Leaf& leaf : archive.arrays()) {
    fmt::print("remembers {}: {}\n", for_terminal(leaf.path), type_of(leaf.value));
  }
}

std::map<std::string, Tensor> by_path(const Contents& contents) {
  std::map<std::string, Tensor> tensors;
  for (const Leaf& leaf : contents.tensors) tensors.emplace(leaf.path, leaf.value);
  return tensors;
}

// How two tensors of one dtype and shape differ; empty if they are bitwise equal.
std::string difference(const Tensor& a, const Tensor& b) {
  return detail::with_elements(a, [&](const auto* first) {
    const auto* second = static_cast<decltype(first)>(b.raw());
    std::int64_t differing = 0;
    double largest = 0;
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (std::memcmp(first + i, second + i, sizeof(*first)) == 0) continue;
      ++differing;
      const double distance = std::abs(static_cast<double>(first[i]) - static_cast<double>(second[i]));
      if (std::isnan(distance) || distance > largest) largest = distance;  // NaN stays
    }
    if (differing == 0) return std::string();
    return fmt::format("{} of {} elements differ, by at most {:.6g}", differing, a.count(), largest);
  });
}

}  // namespace

Contents load_contents(const std::string& path) {
  std::error_code error;  // load() reports what is wrong with such a path
  if (!std::filesystem::is_directory(path, error)) {
    Safetensors file = load(path);
    return {path, std::move(file.tensors), std::move(file.memory), std::move(file.metadata), {}};
  }
  LoadedCheckpoint loaded = load_checkpoint(path);
  for (const std::string& reason : loaded.skipped) fmt::print("skipped: {}\n", reason);
  return {std::move(loaded.path),   std::move(loaded.leaves), std::move(loaded.owner), {},
          std::move(loaded.record), std::move(loaded.archive)};
}

std::string for_terminal(std::string_view name) {
  const std::string quoted = fmt::format("{:?}", name.substr(0, 200));
  return quoted.substr(1, quoted.size() - 2) + (name.size() > 200 ? "..." : "");
}

int show(const std::string& path) {
  Contents contents = load_contents(path);
  std::ranges::sort(contents.tensors, [](const Leaf& a, const Leaf& b) { return a.path < b.path; });
  std::size_t bytes = 0;
  for (const Leaf& leaf : contents.tensors) bytes += leaf.value.bytes();
  fmt::print("{}: {} tensors, {} bytes\n", contents.path, contents.tensors.size(), bytes);
  for (const auto& [name, value] : contents.metadata)
    fmt::print("metadata {}: {}\n", for_terminal(name), for_terminal(value));
  if (contents.record) {
    print_record(*contents.record);
    print_memory(contents.archive);
  }

  std::vector<std::string_view> above;  // the folders printed already
  for (const Leaf& leaf : contents.tensors) {
    std::vector<std::string_view> parts = parts_of(leaf.path);
    const std::string_view name = parts.back();
    parts.pop_back();
    const auto common = std::mismatch(above.begin(), above.end(), parts.begin(), parts.end()).second;
    for (auto part = common; part != parts.end(); ++part) {
      fmt::print("{:{}}{}/\n", "", 2 * (part - parts.begin()), for_terminal(*part));
    }
    fmt::print("{:{}}{}  {}  {} bytes{}\n", "", 2 * parts.size(), for_terminal(name), type_of(leaf.value),
               leaf.value.bytes(), statistics(leaf.value));
    above = std::move(parts);
  }
  return kGood;
}

int diff(const std::string& a, const std::string& b) {
  const Contents first = load_contents(a), second = load_contents(b);
  const std::map<std::string, Tensor> left = by_path(first), right = by_path(second);
  std::size_t equal = 0;
  for (const auto& [path, tensor] : left) {
    const auto other = right.find(path);
    if (other == right.end()) {
      fmt::print("{}: {} only in {}\n", for_terminal(path), type_of(tensor), first.path);
    } else if (tensor.dtype() != other->second.dtype() || tensor.shape() != other->second.shape()) {
      fmt::print("{}: {} in {}, {} in {}\n", for_terminal(path), type_of(tensor), first.path, type_of(other->second),
                 second.path);
    } else if (const std::string found = difference(tensor, other->second); !found.empty()) {
      fmt::print("{}: {}\n", for_terminal(path), found);
    } else {
      ++equal;
    }
  }
  for (const auto& [path, tensor] : right) {
    if (!left.contains(path)) fmt::print("{}: {} only in {}\n", for_terminal(path), type_of(tensor), second.path);
  }
  fmt::print("{} tensors are bitwise equal\n", equal);
  return equal == left.size() && equal == right.size() ? kGood : kDifferentOrDamaged;
}

}  // namespace giro::tools
