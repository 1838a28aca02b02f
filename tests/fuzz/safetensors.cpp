#include <giro/runtime/files/safetensors.h>

#include <cstdint>

#include "runtime/files/shard_files.h"
#include "tests/fuzz/parse.h"

// The input is a file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  giro::test::parse({data, data + size}, [&](giro::FileSystem& files) {
    const giro::Safetensors file = giro::read_safetensors(files, "file");
    for (const giro::Leaf& leaf : file.tensors) giro::test::touch(leaf.value);
    giro::detail::ShardReader joiner(size);  // as a checkpoint's only shard
    const auto reader = files.open("file");
    const auto read = [&](std::uint64_t begin, std::size_t bytes, void* to) { reader->read_at(begin, to, bytes); };
    joiner.add_shard(giro::detail::safetensors::read_layout(read, size, "file"), read, "file");
    for (const giro::Leaf& leaf : joiner.finish("unit")) giro::test::touch(leaf.value);
  });
  return 0;
}
