#include <giro/runtime/files/safetensors.h>

#include <cstdint>

#include "tests/fuzz/parse.h"

// The input is the header. Its correct size is put before it, and 32 bytes of data after it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::uint64_t header_size = size;
  std::string file(reinterpret_cast<const char*>(&header_size), sizeof(header_size));
  file.append(data, data + size);
  file.append(32, 'x');
  giro::test::parse(std::move(file), [](giro::FileSystem& files) {
    for (const giro::Leaf& leaf : giro::read_safetensors(files, "file").tensors) giro::test::touch(leaf.value);
  });
  return 0;
}
