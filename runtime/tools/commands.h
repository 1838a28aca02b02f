#pragma once

#include <string>
#include <vector>

#include <giro/runtime/dtype.h>

namespace giro::tools {

// The commands of giro-checkpoint. Each prints to standard output and returns the exit code; errors are thrown.
inline constexpr int kGood = 0, kDifferentOrDamaged = 1, kFailed = 2;

// CONTENTS below is a safetensors file, a checkpoint, or a directory of checkpoints, which stands for its newest
// undamaged one.

// Lists the checkpoints of a directory, one line each, from their manifests alone; unreadable ones with the reason.
// Error(not_found) if it is not a directory, or is a checkpoint itself.
int list(const std::string& dir);
// Loads a checkpoint, or each one in a directory, which verifies everything that was saved. Prints one line each, "ok"
// or what is wrong. Error(not_found) if there is none.
int verify(const std::string& path);
// Prints the tensors of CONTENTS as a tree: dtype, shape, bytes, and mean and standard deviation of the finite
// elements. For a checkpoint also its record, and the names of the values that its run remembers.
int show(const std::string& contents);
// Prints what differs between the tensors of two CONTENTS, and by how much. Nothing else is compared.
int diff(const std::string& a, const std::string& b);
// Writes the tensors of CONTENTS as NumPy's NPZ. NPY has no bf16: Error(unsupported), unless `widen` converts it to
// f32, which represents all of its values.
int export_npz(const std::string& contents, const std::string& out, bool widen);
// Writes the tensors of CONTENTS, or those that a pattern of `only` matches (LoadOptions), to a safetensors file, with
// floating ones in `dtype` and the others as they are. Errors: those of save; not_found for a pattern that matches
// nothing.
int convert(const std::string& contents, const std::string& out, DType dtype, const std::vector<std::string>& only);

}  // namespace giro::tools
