#include "runtime/program/op_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

constexpr std::string_view kAnyAxes = "...";
constexpr std::array kDTypes{DType::f32, DType::bf16, DType::f16, DType::f64,
                             DType::i32, DType::i64,  DType::u8,  DType::boolean};

std::uint32_t bit(DType dtype) { return 1u << static_cast<unsigned>(dtype); }

template <class... D>
std::uint32_t bits(D... dtypes) {
  return (bit(dtypes) | ...);
}

// Takes what stands before the first `end` outside of parentheses, or everything.
std::string_view take(std::string_view& text, char end) {
  int depth = 0;
  std::size_t at = 0;
  for (; at < text.size() && (depth > 0 || text[at] != end); ++at)
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
  std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  while (taken.starts_with(' ')) taken.remove_prefix(1);
  while (taken.ends_with(' ')) taken.remove_suffix(1);
  return taken;
}

OpSignature::Type type_of(std::string_view name) {
  const std::uint32_t all = (bit(kDTypes.back()) << 1) - 1;
  if (name == "s") return {'s', bits(DType::f32, DType::bf16, DType::f16)};
  if (name == "n") return {'n', all & ~bit(DType::boolean)};
  if (name == "t") return {'t', all};
  if (name == "i") return {0, bits(DType::u8, DType::i32, DType::i64)};
  if (name == "*") return {0, all};
  for (const DType dtype : kDTypes) {
    if (name == name_of(dtype)) return {0, bit(dtype)};
  }
  throw_invalid("a signature has the dtype '{}'", name);
}

std::vector<OpSignature::Axis> axes_of(std::string_view text) {
  std::vector<OpSignature::Axis> axes;
  while (!text.empty()) {
    if (text.starts_with(kAnyAxes)) {
      axes.emplace_back();
      text.remove_prefix(kAnyAxes.size());
      continue;
    }
    const bool is_whole = text.front() == '[', is_enclosed = is_whole || text.front() == '(';
    const std::size_t end = is_enclosed ? text.find(is_whole ? ']' : ')') : 0;
    if (end == text.npos) throw_invalid("a signature has dimensions '{}' that do not end", text);
    axes.push_back({std::string(is_enclosed ? text.substr(1, end - 1) : text.substr(0, 1)), is_whole});
    text.remove_prefix(end + 1);
  }
  return axes;
}

std::vector<OpSignature::Argument> arguments_of(std::string_view side) {
  std::vector<OpSignature::Argument> arguments;
  if (side.find_first_not_of(' ') == side.npos) return arguments;
  while (!side.empty()) {
    std::string_view text = take(side, ',');
    OpSignature::Argument& argument = arguments.emplace_back();
    argument.name = take(text, ':');
    if (text.empty()) throw_invalid("a signature has an argument '{}' without a dtype", argument.name);
    argument.is_optional = argument.name.ends_with('?');
    if (argument.is_optional) argument.name.remove_suffix(1);
    const std::size_t begin = std::min(text.find('('), text.size());
    if (begin < text.size()) argument.axes = axes_of(text.substr(begin + 1, text.rfind(')') - begin - 1));
    for (std::string_view types = text.substr(0, begin); !types.empty();) {
      argument.types.push_back(type_of(take(types, '|')));
    }
  }
  return arguments;
}

// What is known of the arguments seen so far.
class Arguments {
 public:
  Arguments(std::string_view op, std::optional<Device> device) : op_(op), device_(device) { sizes_.fill(-1); }

  // Compound axes may fit once the others are known.
  bool has_open_axes() const { return has_open_axes_; }

  void add(const OpSignature::Argument& argument, const Tensor& tensor, bool is_result) {
    if (tensor.is_empty()) {
      if (argument.is_optional) return;
      throw_error(ErrorCode::shape_mismatch, "{}: {} is empty, expected a tensor", op_, argument.name);
    }
    if (device_) expect_on_device(op_, tensor, *device_, argument.name);
    const auto fits = [&](const OpSignature::Type& type) { return has_type(type, tensor.dtype()); };
    if (std::ranges::none_of(argument.types, fits)) reject_dtype(argument, tensor);
    if (argument.axes && !has_shape(*argument.axes, tensor.shape(), is_result)) {
      throw_error(ErrorCode::shape_mismatch, "{}: {} is {}, expected shape ({})", op_, argument.name, to_string(tensor),
                  shape_of(*argument.axes));
    }
  }

 private:
  bool has_type(const OpSignature::Type& type, DType dtype) {
    if ((type.dtypes & bit(dtype)) == 0) return false;
    if (type.variable == 0) return true;
    if (!common_) common_ = dtype;
    return common_ == dtype;
  }

  [[noreturn]] void reject_dtype(const OpSignature::Argument& argument, const Tensor& tensor) const {
    std::uint32_t possible = 0;
    for (const OpSignature::Type& type : argument.types) {
      possible |= type.variable != 0 && common_ ? bit(*common_) : type.dtypes;
    }
    std::string names;
    for (const DType dtype : kDTypes) {
      if ((possible & bit(dtype)) == 0) continue;
      const bool is_last = possible < bit(dtype) << 1;
      names += fmt::format("{}{}", names.empty() ? "" : is_last ? " or " : ", ", name_of(dtype));
    }
    throw_error(ErrorCode::dtype_mismatch, "{}: {} is {}, expected dtype {}", op_, argument.name, to_string(tensor),
                names);
  }

  bool has_shape(const std::vector<OpSignature::Axis>& axes, const Shape& shape, bool is_result) {
    const auto any = std::ranges::count(axes, std::string(), &OpSignature::Axis::letters);
    const std::size_t named = axes.size() - static_cast<std::size_t>(any);
    if (any == 0 ? shape.rank() != named : shape.rank() < named) return false;
    const std::int64_t* size = shape.begin();
    for (const OpSignature::Axis& axis : axes) {
      if (axis.letters.empty()) {
        if (!broadcasts({size, shape.rank() - named}, is_result)) return false;
        size += shape.rank() - named;
      } else if (!has_size(axis.letters, *size++)) {
        return false;
      }
    }
    return true;
  }

  bool has_size(const std::string& letters, std::int64_t size) {
    std::int64_t known = 1, *unknown = nullptr;
    for (const char letter : letters) {
      std::int64_t& of_letter = sizes_[static_cast<unsigned char>(letter) % sizes_.size()];
      if (of_letter >= 0) {
        known *= of_letter;
      } else if (unknown != nullptr) {
        return has_open_axes_ = true;
      } else {
        unknown = &of_letter;
      }
    }
    if (unknown == nullptr) return known == size;
    if (known == 0) return size == 0;
    if (size % known != 0) return false;
    *unknown = size / known;
    return true;
  }

  bool broadcasts(std::span<const std::int64_t> sizes, bool is_result) {
    if (is_result && sizes.size() != any_.size()) return false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::int64_t size = sizes[sizes.size() - 1 - i];
      if (i == any_.size()) any_.push_back(size);
      if (any_[i] == 1 && !is_result) any_[i] = size;
      if (size != any_[i] && (size != 1 || is_result)) return false;
    }
    return true;
  }

  // With letters where a size is not known.
  std::string shape_of(const std::vector<OpSignature::Axis>& axes) const {
    std::string text;
    for (const OpSignature::Axis& axis : axes) {
      text += text.empty() ? "" : ", ";
      std::int64_t known = 1;
      std::string letters;
      for (const char letter : axis.letters) {
        const std::int64_t size = sizes_[static_cast<unsigned char>(letter) % sizes_.size()];
        if (size >= 0) known *= size;
        if (size < 0) letters += fmt::format("{}{}", letters.empty() ? "" : " ", static_cast<char>(letter - 'a' + 'A'));
      }
      if (axis.letters.empty()) {
        text += kAnyAxes;
      } else if (letters.empty()) {
        text += std::to_string(known);
      } else {
        text += known == 1 ? letters : fmt::format("{} {}", known, letters);
      }
    }
    return axes.size() == 1 ? text + "," : text;
  }

  std::string_view op_;
  std::optional<Device> device_;
  std::optional<DType> common_;
  std::array<std::int64_t, 32> sizes_{};  // by letter; -1 if not known
  std::vector<std::int64_t> any_;         // of kAnyAxes, the last axis first
  bool has_open_axes_ = false;
};

}  // namespace

void expect_fit(std::string_view op, const char* line, std::initializer_list<const Tensor*> values,
                std::initializer_list<const Tensor*> results) {
  static std::mutex mutex;
  static std::map<const char*, OpSignature> known;
  const OpSignature& signature = [&]() -> const OpSignature& {
    const std::lock_guard lock(mutex);
    return known.try_emplace(line, line).first->second;
  }();
  signature.check(op, values, results);
}

void expect_on_device(std::string_view op, const Tensor& argument, Device device, std::string_view name) {
  if (!argument || argument.device() == device) return;
  throw_error(ErrorCode::device_mismatch, "{}: {} is {}, but the stream is on {}", op, name, to_string(argument),
              to_string(device));
}

OpSignature::OpSignature(std::string_view line) : line_(line) {
  constexpr std::string_view kArrow = "->";
  const std::string_view text = line_;
  const std::size_t arrow = text.find(kArrow);
  reads_ = arguments_of(text.substr(0, arrow));
  if (arrow != text.npos) writes_ = arguments_of(text.substr(arrow + kArrow.size()));
}

void OpSignature::check(std::string_view op, Tensors reads, Tensors writes, std::optional<Device> device) const {
  if (reads.size() != reads_.size() || writes.size() != writes_.size()) {
    throw_invalid("{}: the signature '{}' has {} and {} arguments, the op has {} and {}", op, line_, reads_.size(),
                  writes_.size(), reads.size(), writes.size());
  }
  Arguments known(op, device);
  const auto add_all = [&] {
    for (std::size_t i = 0; i < reads.size(); ++i) known.add(reads_[i], *reads[i], false);
    for (std::size_t i = 0; i < writes.size(); ++i) known.add(writes_[i], *writes[i], true);
  };
  add_all();
  if (known.has_open_axes()) add_all();
}

}  // namespace giro::detail
