#include "runtime/path_pattern.h"

#include <algorithm>

#include "runtime/throw_error.h"

namespace giro {
namespace {

bool is_separator(char c) { return c == '/' || c == '.'; }

// A character, or a wildcard if it is 0.
struct Token {
  char character = 0;
  bool crosses_separators = false;

  bool is_wildcard() const { return character == 0; }
  bool takes(char c) const { return is_wildcard() ? crosses_separators || !is_separator(c) : c == character; }
};

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '*') {
      tokens.push_back({text[i]});
    } else {
      const bool twice = i + 1 < text.size() && text[i + 1] == '*';
      tokens.push_back({0, twice});
      if (twice) ++i;
    }
  }
  return tokens;
}

}  // namespace

std::size_t PathPattern::wildcards() const {
  return static_cast<std::size_t>(std::ranges::count_if(tokens_of(text_), &Token::is_wildcard));
}

std::optional<std::vector<std::string_view>> PathPattern::match(std::string_view path) const {
  const std::string_view literal = std::string_view(text_).substr(0, text_.find('*'));
  if (!path.starts_with(literal)) return std::nullopt;
  if (literal.size() == text_.size()) {
    const std::string_view rest = path.substr(literal.size());
    const bool whole_parts =
        rest.empty() || literal.empty() || is_separator(literal.back()) || is_separator(rest.front());
    return whole_parts ? std::optional(std::vector{rest}) : std::nullopt;
  }

  // fits(t, i): the tokens from t on match the path from character i on. Filled from the end, so that no backtracking
  // is needed.
  const std::vector<Token> tokens = tokens_of(text_);
  const std::size_t columns = path.size() + 1;
  std::vector<bool> table((tokens.size() + 1) * columns);
  const auto fits = [&](std::size_t token, std::size_t i) { return table[token * columns + i]; };
  table[tokens.size() * columns + path.size()] = true;
  for (std::size_t t = tokens.size(); t-- > 0;) {
    for (std::size_t i = columns; i-- > 0;) {
      const bool takes = i < path.size() && tokens[t].takes(path[i]);
      table[t * columns + i] =
          tokens[t].is_wildcard() ? fits(t + 1, i) || (takes && fits(t, i + 1)) : takes && fits(t + 1, i + 1);
    }
  }
  if (!fits(0, 0)) return std::nullopt;

  std::vector<std::string_view> matched;
  std::size_t i = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (!tokens[t].is_wildcard()) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < path.size() && tokens[t].takes(path[i]) && fits(t, i + 1)) ++i;
    matched.push_back(path.substr(begin, i - begin));
  }
  return matched;
}

std::string PathPattern::fill(const std::vector<std::string_view>& matched) const {
  std::string path;
  std::size_t next = 0;
  for (const Token& token : tokens_of(text_)) {
    if (token.is_wildcard()) {
      path += matched[next++];
    } else {
      path += token.character;
    }
  }
  if (next < matched.size()) path += matched[next];
  return path;
}

bool matches_any(const std::vector<PathPattern>& patterns, std::string_view path) {
  return std::ranges::any_of(patterns, [&](const PathPattern& each) { return each.match(path).has_value(); });
}

Renaming::Renaming(const char* call, const std::vector<std::pair<std::string, std::string>>& pairs) {
  for (const auto& [from, to] : pairs) {
    const Rule& rule = rules_.emplace_back(Rule{PathPattern(from), PathPattern(to)});
    if (rule.from.wildcards() == rule.to.wildcards()) continue;
    throw_invalid("{}: rename: '{}' has {} wildcards, '{}' has {}, expected the same number", call, from,
                  rule.from.wildcards(), to, rule.to.wildcards());
  }
}

std::string Renaming::operator()(const std::string& path) const {
  for (const Rule& rule : rules_) {
    if (const auto matched = rule.from.match(path)) return rule.to.fill(*matched);
  }
  return path;
}

std::string Renaming::before(const std::string& path) const {
  for (const Rule& rule : rules_) {
    if (const auto matched = rule.to.match(path)) return rule.from.fill(*matched);
  }
  return path;
}

}  // namespace giro
