#pragma once

#include <vector>

namespace giro::cuda {

// A library of NVIDIA's that is not linked but loaded when it is first needed, so a program that runs on the CPU does
// not have its pages. Never unloaded.
class Library {
 public:
  struct Description {
    const char* name;                // "NVRTC, which compiles kernels at run time,"
    std::vector<const char*> files;  // "libnvrtc.so.13"; the first one found is taken
    const char* package;             // a sentence that says where it comes from
    const char* newest;              // the function that old versions lack
  };
  // What the process has loaded already, if it has the newest function; or else a file where the dynamic linker looks,
  // or where the build found CUDA. Error(unsupported), naming the package, if there is none.
  explicit Library(const Description& description);

  // The function of this name, to initialize a pointer of its type. Error(unsupported) if the library lacks it.
  struct Function {
    template <class F>
    operator F*() const {
      return reinterpret_cast<F*>(address);
    }
    void* address;
  };
  Function find(const char* name) const;

 private:
  void* handle_;
  const char* package_;
};

}  // namespace giro::cuda
