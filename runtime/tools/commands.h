#pragma once

#include <string>

namespace giro::tools {

// What giro-checkpoint does. Each prints to standard output and returns the exit code; errors are thrown.
inline constexpr int kGood = 0, kDifferentOrDamaged = 1, kFailed = 2;

// Below, CONTENTS is a safetensors file, a checkpoint, or a directory of checkpoints, which stands for its newest that
// is not damaged.

// The checkpoints of a directory, a line each, by their manifests alone; those that cannot be read with the reason.
// Error(not_found) for what is not a directory, or is a checkpoint itself.
int list(const std::string& dir);
// Loads a checkpoint, or each in a directory of them, and so checks all that was saved: a line each, "ok" or what is
// wrong. Error(not_found) where there is none.
int verify(const std::string& path);
// The tensors of CONTENTS as a tree: dtype, shape, bytes, and of the finite elements mean and standard deviation. Of a
// checkpoint also its record, and by name what its run remembers.
int show(const std::string& contents);
// What differs between the tensors of two CONTENTS, and by how much. Nothing else is compared.
int diff(const std::string& a, const std::string& b);
// The tensors of CONTENTS as NumPy's NPZ. NPY has no bf16: Error(unsupported), unless it is to be widened to f32, which
// holds every value of it.
int export_npz(const std::string& contents, const std::string& out, bool widen);

}  // namespace giro::tools
