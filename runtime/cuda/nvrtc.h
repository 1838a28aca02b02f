#pragma once

#include <string>
#include <vector>

namespace giro::cuda {

// NVRTC, which compiles CUDA C++ while a program runs: the one that the process has loaded already, or else the first
// that is found. Nothing is linked, so a program that generates no kernels does not need it.
class Nvrtc {
 public:
  // Error(unsupported), naming the package that holds it, where there is none.
  static const Nvrtc& of_process();

  // "13.0"
  const std::string& version() const noexcept { return version_; }
  // What a source is compiled with besides: other options make other code.
  static const std::vector<std::string>& options();
  // Machine code for an architecture, such as 90. Errors: unsupported if this NVRTC does not know it;
  // invalid_argument, with the compiler's log, for a source that does not compile.
  std::string compile(const std::string& source, int architecture) const;
  // The same as PTX.
  std::string ptx(const std::string& source, int architecture) const;

 private:
  struct Functions;
  Nvrtc();
  template <class Get>
  std::string compiled(const std::string& source, const std::string& architecture, Get&& get) const;

  const Functions* functions_;
  std::string version_;
};

}  // namespace giro::cuda
