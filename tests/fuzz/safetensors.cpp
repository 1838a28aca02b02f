#include <giro/runtime/safetensors.h>

#include <cstdint>

#include "tests/fuzz/parse.h"

// The input is a file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  giro::test::parse({data, data + size}, [](giro::FileSystem& files) {
    for (const giro::Leaf& leaf : giro::read_safetensors(files, "file").tensors) giro::test::touch(leaf.value);
  });
  return 0;
}
