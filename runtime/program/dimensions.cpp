#include "runtime/program/dimensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

constexpr std::string_view kAnyAxes = "...", kAnyShape = "_";

// The arguments on one side of the arrow, of that many tensors.
std::vector<std::string_view> split(std::string_view side, std::size_t tensors) {
  std::vector<std::string_view> arguments;
  if (tensors == 0 && side.find_first_not_of(' ') == side.npos) return arguments;
  for (std::size_t begin = 0; begin <= side.size();) {
    const std::size_t end = std::min(side.find(',', begin), side.size());
    std::string_view argument = side.substr(begin, end - begin);
    while (argument.starts_with(' ')) argument.remove_prefix(1);
    while (argument.ends_with(' ')) argument.remove_suffix(1);
    arguments.push_back(argument);
    begin = end + 1;
  }
  return arguments;
}

// The letters of each axis of an argument, or kAnyAxes.
std::vector<std::string> axes_of(std::string_view argument) {
  std::vector<std::string> axes;
  while (!argument.empty()) {
    if (argument.starts_with(kAnyAxes)) {
      axes.emplace_back(kAnyAxes);
      argument.remove_prefix(kAnyAxes.size());
      continue;
    }
    const bool is_enclosed = argument.front() == '(' || argument.front() == '[';
    const std::size_t end = is_enclosed ? argument.find_first_of(")]") : 0;
    axes.emplace_back(is_enclosed ? argument.substr(1, end - 1) : argument.substr(0, 1));
    argument.remove_prefix(end + 1);
  }
  return axes;
}

// Finds the size of each letter, argument by argument.
class Sizes {
 public:
  // Whether the argument fits; notes what does not. A result has the sizes that the others broadcast to.
  bool add(std::string_view line, const Tensor& tensor, bool is_result) {
    if (line == kAnyShape) return true;
    const std::vector<std::string> axes = axes_of(line);
    const auto any = std::find(axes.begin(), axes.end(), kAnyAxes);
    const std::size_t rank = tensor.shape().rank(), named = axes.size() - (any != axes.end() ? 1 : 0);
    if (any == axes.end() ? rank != named : rank < named) {
      wrong = fmt::format("{} has {} axes, expected those of {}", to_string(tensor), rank, line);
      return false;
    }
    std::size_t at = 0;
    for (const std::string& axis : axes) {
      if (axis == kAnyAxes) {
        if (!broadcasts(tensor, at, rank - named, is_result)) return false;
        at += rank - named;
      } else if (!fits(axis, tensor, tensor.shape().begin()[at++])) {
        return false;
      }
    }
    return true;
  }

  std::string wrong;

 private:
  bool fits(const std::string& axis, const Tensor& tensor, std::int64_t size) {
    std::int64_t known = 1;
    char unknown = 0;
    for (const char letter : axis) {
      const auto found = sizes_.find(letter);
      if (found != sizes_.end()) {
        known *= found->second.first;
      } else if (unknown != 0) {
        return true;
      } else {
        unknown = letter;
      }
    }
    if (unknown != 0 && known > 0 && size % known == 0) {
      sizes_[unknown] = {size / known, tensor};
      return true;
    }
    if (unknown == 0 && known == size) return true;
    wrong = fmt::format("{} is {} in {}", axis, size, to_string(tensor));
    for (const char letter : axis) {
      const auto found = sizes_.find(letter);
      if (found == sizes_.end()) continue;
      wrong += fmt::format(", and {} is {} in {}", letter, found->second.first, to_string(found->second.second));
    }
    return false;
  }

  bool broadcasts(const Tensor& tensor, std::size_t begin, std::size_t count, bool is_result) {
    bool fits = !is_result || count == any_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t size = tensor.shape().begin()[begin + count - 1 - i];
      if (i == any_.size()) any_.push_back(size);
      if (any_[i] == 1 && !is_result) any_[i] = size;
      fits = fits && (size == any_[i] || (size == 1 && !is_result));
    }
    if (fits) return true;
    wrong = fmt::format("{} does not broadcast with the others", to_string(tensor));
    return false;
  }

  std::map<char, std::pair<std::int64_t, Tensor>> sizes_;  // and where each was found
  std::vector<std::int64_t> any_;                          // of kAnyAxes, the last axis first
};

}  // namespace

std::optional<std::string> unfitting(std::string_view line, const std::vector<Tensor>& reads,
                                     const std::vector<Tensor>& writes) {
  constexpr std::string_view kArrow = "->";
  const std::size_t arrow = line.find(kArrow);
  if (arrow == line.npos) throw_invalid("the dimensions '{}' have no {}", line, kArrow);
  Sizes sizes;
  // The second time, compound axes find the sizes of all that is known.
  for (int time = 0; time < 2; ++time) {
    for (const bool is_read : {true, false}) {
      const std::vector<Tensor>& tensors = is_read ? reads : writes;
      const auto arguments =
          split(is_read ? line.substr(0, arrow) : line.substr(arrow + kArrow.size()), tensors.size());
      if (arguments.size() != tensors.size()) {
        throw_invalid("the dimensions '{}' have {} arguments on one side, the op has {}", line, arguments.size(),
                      tensors.size());
      }
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!tensors[i].is_empty() && !sizes.add(arguments[i], tensors[i], !is_read)) return sizes.wrong;
      }
    }
  }
  return std::nullopt;
}

}  // namespace giro::detail
