#pragma once

#include <memory>
#include <string>

#include <giro/loop/data/dataset.h>
#include <giro/runtime/files/file_system.h>

namespace giro::data {

struct Cifar10Options {
  std::string dir = "cifar-10-batches-bin";  // directory of the six files
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// The "train" or "test" split of CIFAR-10 in its binary version (https://www.cs.toronto.edu/~kriz/cifar.html):
// data_batch_1.bin to data_batch_5.bin, or test_batch.bin. Features "image", u8 (N, 32, 32, 3), and "label", u8 (N,)
// below 10. Errors: invalid_argument (unknown split), not_found, io, corrupt_data (a size that is not a multiple of a
// record's, no images, a label out of range). Each names the file.
Dataset cifar10(const std::string& split, const Cifar10Options& options = {});

}  // namespace giro::data
