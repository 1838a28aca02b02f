#pragma once

#include <string>

namespace giro::tools {

// What giro-checkpoint does. Each prints to standard output and returns the exit code; errors are thrown.
inline constexpr int kSame = 0, kDifferent = 1, kFailed = 2;

// The tensors of a file as a tree: dtype, shape, bytes, and of the finite elements mean and standard deviation.
int show(const std::string& path);
// What differs between the tensors of two files, and by how much. Metadata are not compared.
int diff(const std::string& a, const std::string& b);
// A file's tensors as NumPy's NPZ. NPY has no bf16: Error(unsupported), unless it is to be widened to f32, which holds
// every value of it.
int export_npz(const std::string& path, const std::string& out, bool widen);

}  // namespace giro::tools
