#include <giro/distributed/mesh.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

std::string text_of(const Mesh::Axes& axes) {
  std::string text = "{";
  for (const auto& [name, size] : axes) text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", name, size);
  return text + "}";
}

// Resolves a size of -1 and checks that the product of the sizes is `ranks`.
Mesh::Axes resolve(Mesh::Axes axes, int ranks) {
  const auto reject = [given = axes](const std::string& why) { throw_invalid("Mesh {}: {}", text_of(given), why); };
  if (axes.empty()) reject("expected at least one axis");
  std::int64_t product = 1;
  int* open = nullptr;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    auto& [name, size] = axes[i];
    if (name.empty()) reject("an axis has no name");
    const bool is_twice = std::any_of(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i),
                                      [&axis = name](const auto& earlier) { return earlier.first == axis; });
    if (is_twice) reject(fmt::format("axis {} appears twice", printable(name)));
    if (size == -1) {
      if (open != nullptr) reject("only one size may be -1");
      open = &size;
    } else if (size < 1) {
      reject(fmt::format("expected sizes of at least 1, or -1 for what the others leave, found {}", size));
    } else if (product <= ranks) {  // otherwise the product is too large already
      product *= size;
    }
  }
  if (open != nullptr) {
    if (ranks % product != 0) reject(fmt::format("{} ranks are not divisible by {}", ranks, product));
    *open = static_cast<int>(ranks / product);
    product = ranks;
  }
  if (product != ranks) reject(fmt::format("the sizes must multiply to {} ranks", ranks));
  return axes;
}

}  // namespace

Mesh::Mesh(World& world, Axes axes) : Mesh(world, world.device(), std::move(axes)) {}

Mesh::Mesh(World& world, Device device, Axes axes)
    : world_(world), axes_(resolve(std::move(axes), world.size())), all_(world.communicator(device)) {
  int stride = world.size();  // between neighbours along the axis
  for (const auto& [name, size] : axes_) {
    stride /= size;
    const int position = world.rank() / stride % size;
    // Ranks that differ only along this axis have the same rank at position 0, which no other rank has.
    const int first = world.rank() - position * stride;
    groups_.emplace(name, Groups{all_.split(first, position), world.host().split(first, position)});
  }
}

const Mesh::Groups& Mesh::groups(const std::string& name) const {
  const auto found = groups_.find(name);
  if (found != groups_.end()) return found->second;
  throw_error(ErrorCode::not_found, "Mesh {}: there is no axis {}{}", text_of(axes_), printable(name),
              suggestion(name, axes_));
}

}  // namespace giro
