#pragma once

#include <string>
#include <vector>

namespace giro::cuda {

// NVRTC, which compiles CUDA C++ at run time: the library that the process has loaded already, or else the first one
// found. It is not linked, so a program that generates no kernels does not need it.
class Nvrtc {
 public:
  // Error(unsupported), naming the package that contains it, if there is none.
  static const Nvrtc& instance();

  // "13.0"
  const std::string& version() const noexcept { return version_; }
  // The options that every source is compiled with; other options produce other code.
  static const std::vector<std::string>& options();
  // Machine code for an architecture, e.g. 90. Errors: unsupported if this NVRTC does not know it; invalid_argument,
  // with the compiler's log, for a source that does not compile.
  std::string compile(const std::string& source, int architecture) const;
  // The same as PTX.
  std::string ptx(const std::string& source, int architecture) const;

 private:
  struct Functions;
  Nvrtc();
  std::string compiled(const std::string& source, int architecture, bool as_ptx) const;

  const Functions* functions_;
  std::string version_;
};

}  // namespace giro::cuda
