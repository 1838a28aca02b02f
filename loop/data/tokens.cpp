#include <giro/loop/data/tokens.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include <giro/loop/data/row_source.h>

#include "loop/data/row_files.h"
#include "runtime/throw_error.h"

namespace giro::data {
namespace {

class Windows final : public RowSource {
 public:
  Windows(const Paths& paths, const TokenOptions& options)
      : width_(options.bytes_per_token),
        context_(options.context),
        stride_(options.stride == 0 ? options.context : options.stride),
        rows_(options.files, static_cast<std::size_t>(width_) * (static_cast<std::size_t>(context_) + 1),
              static_cast<std::uint64_t>(width_) * static_cast<std::uint64_t>(stride_)) {
    constexpr std::int64_t kMax = std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1;
    const std::int64_t held = width_ == 1 ? 256 : width_ == 2 ? 65'536 : kMax;
    vocabulary_ = options.vocabulary == 0 ? held : options.vocabulary;
    if (width_ != 1 && width_ != 2 && width_ != 4)
      throw_invalid("tokens: {} bytes per token, expected 1, 2 or 4", width_);
    if (context_ < 1 || stride_ < 1) {
      throw_invalid("tokens: a context of {} and a stride of {}, expected at least 1", context_, stride_);
    }
    if (vocabulary_ < 1 || vocabulary_ > kMax) {
      throw_invalid("tokens: a vocabulary of {}, expected 1 to {}", vocabulary_, kMax);
    }
    if (!(options.begin >= 0 && options.begin < options.end && options.end <= 1)) {
      throw_invalid("tokens: the part from {} to {} of each file, expected 0 <= begin < end <= 1", options.begin,
                    options.end);
    }
    if (paths.empty()) throw_invalid("tokens: no path, expected at least one file");
    for (const std::string& path : paths) add(path, options);
    if (num_rows() == 0) {
      throw_invalid("tokens: {} {} fewer than {} tokens{}", paths.front(),
                    paths.size() == 1 ? "has" : fmt::format("and {} more have each", paths.size() - 1),
                    static_cast<std::uint64_t>(context_) + 1,
                    options.begin > 0 || options.end < 1 ? " in the requested part" : "");
    }
  }

  std::int64_t num_rows() const override { return rows_.num_rows(); }
  DType dtype() const override { return DType::i32; }
  Shape row_shape() const override { return {context_ + 1}; }

  void read(std::span<const std::int64_t> rows, void* to) const override {
    auto* out = static_cast<std::int32_t*>(to);
    for (const std::int64_t row : rows) {
      read(row, out);
      out += context_ + 1;
    }
  }

 private:
  void add(const std::string& path, const TokenOptions& options) {
    if (options.files->status(path).kind == FileSystem::Kind::directory) {
      throw_invalid("tokens: {} is a directory, expected a file", path);
    }
    const auto bytes = static_cast<std::int64_t>(options.files->open(path)->size());
    if (bytes % width_ != 0) {
      throw_error(ErrorCode::corrupt_data, "{}: {} bytes, expected a multiple of {}, the size of a token", path, bytes,
                  width_);
    }
    const auto share = [&](double part) {
      return static_cast<std::int64_t>(std::floor(part * static_cast<double>(bytes / width_)));
    };
    const std::int64_t first = share(options.begin), count = share(options.end) - first;
    const std::int64_t windows = count <= context_ ? 0 : (count - context_ - 1) / stride_ + 1;
    rows_.add(path, static_cast<std::uint64_t>(first * width_), windows);
  }

  void read(std::int64_t row, std::int32_t* out) const {
    const auto count = static_cast<std::size_t>(context_ + 1), width = static_cast<std::size_t>(width_);
    // The ids are read into the end of the row and widened in place from its beginning.
    auto* const raw = reinterpret_cast<unsigned char*>(out) + count * (sizeof *out - width);
    const RowFiles::Location location = rows_.read(row, raw);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t id = 0;
      for (std::size_t byte = 0; byte < width; ++byte) id |= std::uint32_t{raw[i * width + byte]} << (8 * byte);
      if (id >= vocabulary_) {
        throw_error(ErrorCode::corrupt_data, "{}: token {} is {}, expected an id below {}", location.path,
                    location.byte / width + i, id, vocabulary_);
      }
      out[i] = static_cast<std::int32_t>(id);
    }
  }

  int width_;
  std::int64_t context_, stride_, vocabulary_ = 0;
  RowFiles rows_;
};

}  // namespace

Dataset tokens(const Paths& paths, const TokenOptions& options) {
  return Dataset({{"tokens", std::make_shared<const Windows>(paths, options)}});
}

}  // namespace giro::data
