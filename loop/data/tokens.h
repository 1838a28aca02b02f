#pragma once

#include <cstdint>
#include <memory>

#include <giro/loop/data/dataset.h>
#include <giro/loop/data/paths.h>
#include <giro/runtime/files/file_system.h>

namespace giro::data {

struct TokenOptions {
  std::int64_t context = 1024;  // tokens that a model sees at once
  std::int64_t stride = 0;      // tokens between the starts of two windows; 0: `context`
  int bytes_per_token = 2;      // 1, for text, 2 or 4; unsigned, little-endian
  std::int64_t vocabulary = 0;  // ids are below it; 0: whatever the bytes can hold
  // Which part of each file, in [0, 1]: {0, 0.9} to train and {0.9, 1} to validate.
  double begin = 0, end = 1;
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// Windows of tokens from files that hold nothing but token ids, or text. Feature "tokens", i32 (N, context + 1): the
// model is given tokens[:-1] and predicts tokens[1:], so neighbouring windows share a token. No window spans two files;
// leftover tokens at the end of a file are dropped. Windows are read from the files when a batch is made, so the files
// may be larger than memory; use prefetch.
//
// Errors: invalid_argument for an option out of range, no path, or files without a single window; not_found, io;
// corrupt_data for a size that is not a multiple of bytes_per_token; when a batch is made, also for an id that is not
// in the vocabulary, with its position, and for a file that has become shorter. Each names the file.
Dataset tokens(const Paths& paths, const TokenOptions& options = {});

}  // namespace giro::data
