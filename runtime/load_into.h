#pragma once

#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/state.h>

namespace giro {

// In patterns of paths, `*` stands for any characters but '/' and '.', and `**` for any characters. A pattern without
// either stands for that path and all below it: "params/encoder" for "params/encoder/kernel" too.
struct LoadOptions {
  // Which of the state's saved leaves are loaded; empty: all. What else is given is passed over.
  std::vector<std::string> only = {};
  // What the given leaves are called in the state: the first pair whose first pattern matches a leaf's path. What its
  // wildcards stand for replaces those of the second pattern, in their order; without wildcards the rest of the path is
  // kept. So {"model.layers.*.weight", "params/layer*/kernel"}, or {"encoder", "params/encoder"}.
  std::vector<std::pair<std::string, std::string>> rename = {};
  // Which leaves may be missing, and stay as they are, or extra, and are passed over: the report does not tell.
  std::vector<std::string> optional = {};
  // Whether anything that does not fit is an error. Otherwise what fits is loaded, and the report tells the rest.
  bool strict = true;
};

struct LoadReport {
  std::vector<std::string> loaded;      // paths of the state
  std::vector<std::string> missing;     // paths of the state that nothing was given for
  std::vector<std::string> extra;       // paths of given leaves, before renaming, that the state has no saved leaf for
  std::vector<std::string> mismatched;  // a line each: the path in the state, what was found, and what was expected

  // One line: how many of each, and the names of those that were not loaded, at most kNamed of a kind.
  std::string text() const;
  static constexpr std::size_t kNamed = 20;
};

// Sets leaves of a state to the values of `leaves` that have the same path, shape and dtype; nothing is ever converted.
// The state's other leaves stay as they are. The leaves may lie on the host or on the state's device; for those that
// another stream writes the caller waits before. Returns once the values are copied. For weights that go over a whole
// training state use restore() (giro/callbacks/checkpoint.h).
//
// The state changes only if there is no error. Errors: with `strict`, one that names all that does not fit: not_found
// (missing or extra leaves), else shape_mismatch, else dtype_mismatch. In any case: not_found for a pattern of `only`
// that matches no saved leaf of the state; invalid_argument for two leaves of one path, after renaming, for a pair of
// `rename` whose patterns differ in their number of wildcards, and while the state's step is being recorded;
// device_mismatch for a leaf on another device.
LoadReport load_into(State& state, const std::vector<Leaf>& leaves, const LoadOptions& options = {});

}  // namespace giro
