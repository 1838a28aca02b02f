#pragma once

#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/state.h>

namespace giro {

// In patterns of paths, `*` matches any characters except '/' and '.', and `**` matches any characters. A pattern
// without either matches that path and all paths below it: "params/encoder" matches "params/encoder/kernel" too.
struct LoadOptions {
  // Which of the state's saved leaves are loaded; empty: all. Given leaves for other paths are ignored.
  std::vector<std::string> only = {};
  // Renames given leaves to their paths in the state, using the first pair whose first pattern matches the path. The
  // text that its wildcards match replaces the wildcards of the second pattern, in order; without wildcards the rest of
  // the path is kept. Examples: {"model.layers.*.weight", "params/layer*/kernel"}, or {"encoder", "params/encoder"}.
  std::vector<std::pair<std::string, std::string>> rename = {};
  // Leaves that may be missing (they stay as they are) or extra (they are ignored); the report leaves them out.
  std::vector<std::string> optional = {};
  // Whether floating leaves of other floating dtypes are converted, rounded to nearest even; NaN stays NaN.
  bool convert = false;
  // Whether any mismatch is an error. Otherwise the leaves that fit are loaded, and the report lists the rest.
  bool strict = true;
};

struct LoadReport {
  std::vector<std::string> loaded;      // paths of the state
  std::vector<std::string> missing;     // paths of the state without a given leaf
  std::vector<std::string> extra;       // paths of given leaves, before renaming, without a saved leaf in the state
  std::vector<std::string> mismatched;  // one line each: the path in the state, what was found, and what was expected

  // One line: how many of each, and the names of those that were not loaded, at most kNamed of each kind.
  std::string text() const;
  static constexpr std::size_t kNamed = 20;
};

// Sets leaves of a state to the values of `leaves` that have the same path, shape and dtype; values are converted only
// if `convert` is set. The state's other leaves stay as they are. The leaves may lie on the host or on the state's
// device; the caller must first wait for leaves that another stream writes. Returns once the values are copied. To load
// a checkpoint into a whole training state use restore() (giro/callbacks/checkpoint.h).
//
// The state changes only if there is no error. Errors: with `strict`, one that names every mismatch: not_found (missing
// or extra leaves), else shape_mismatch, else dtype_mismatch. In any case: not_found for a pattern of `only` that
// matches no saved leaf of the state; invalid_argument for two leaves with the same path after renaming, for two
// patterns of `rename` with different numbers of wildcards, for a finite value that a conversion would make infinite,
// naming its leaf, and while the state's step is being recorded; device_mismatch for a leaf on another device.
LoadReport load_into(State& state, const std::vector<Leaf>& leaves, const LoadOptions& options = {});

}  // namespace giro
