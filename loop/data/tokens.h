#pragma once

#include <cstdint>
#include <memory>

#include <giro/loop/data/dataset.h>
#include <giro/loop/data/paths.h>
#include <giro/runtime/file_system.h>

namespace giro::data {

struct TokenOptions {
  std::int64_t context = 1024;  // tokens that a model sees at once
  std::int64_t stride = 0;      // from the first token of a window to that of the next; 0: `context`
  int bytes_per_token = 2;      // 1, for text; 2 or 4, little-endian without a sign
  std::int64_t vocabulary = 0;  // ids are below it; 0: whatever the bytes can hold
  // Which part of each file, in [0, 1]: {0, 0.9} to train and {0.9, 1} to validate.
  double begin = 0, end = 1;
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// Windows of the tokens in files, which hold nothing but ids, as of a tokenizer, or text. Feature "tokens", i32 (N,
// context + 1): the model is given tokens[:-1] and predicts tokens[1:], so that neighbouring windows share a token. No
// window has tokens of two files; tokens at the end of a file that fill no window are left out. Windows are read from
// the files when a batch is made, so the files may be larger than memory; use prefetch.
//
// Errors: invalid_argument for a wrong option, no path, or files without a single window; not_found, io; corrupt_data
// for a size that is no multiple of bytes_per_token; when a batch is made, also for an id that is not in the
// vocabulary, with its position, and for a file that has become shorter. Each names the file.
Dataset tokens(const Paths& paths, const TokenOptions& options = {});

}  // namespace giro::data
