#include "runtime/files/npy.h"

#include <cstdint>

#include "tests/fuzz/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  giro::test::parse({data, data + size}, [](giro::FileSystem& files) { giro::detail::read_npy_header("file", files); });
  return 0;
}
