#include "callbacks/line_of_text.h"

#include <locale.h>
#include <wchar.h>

namespace giro::detail {
namespace {

// While it lives, this thread reads characters as UTF-8, whatever the program's locale. On a system without such a
// locale each byte beyond ASCII becomes a space.
class Utf8Scope {
 public:
  Utf8Scope() {
    static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (utf8 != nullptr) before_ = ::uselocale(utf8);
  }
  ~Utf8Scope() {
    if (before_ != nullptr) ::uselocale(before_);
  }
  Utf8Scope(const Utf8Scope&) = delete;
  Utf8Scope& operator=(const Utf8Scope&) = delete;

 private:
  locale_t before_ = nullptr;
};

}  // namespace

LineOfText line_of(std::string_view text, std::size_t columns) {
  const Utf8Scope scope;
  LineOfText line;
  std::mbstate_t state{};
  for (std::size_t i = 0, bytes = 0; i < text.size(); i += bytes) {
    wchar_t character = 0;
    bytes = ::mbrtowc(&character, text.data() + i, text.size() - i, &state);
    const bool is_valid = bytes != 0 && bytes <= text.size() - i;
    const int width = is_valid ? ::wcwidth(character) : -1;
    if (!is_valid) {
      bytes = 1;
      state = {};
    }
    const std::size_t taken = width < 0 ? 1 : static_cast<std::size_t>(width);
    if (line.columns + taken > columns) break;
    line.columns += taken;
    line.text += width < 0 ? " " : text.substr(i, bytes);
  }
  return line;
}

}  // namespace giro::detail
