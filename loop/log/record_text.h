#pragma once

#include <string>
#include <string_view>

#include <giro/loop/time/elapsed.h>

// How records of logs are written to text files, shared by the history's exports and the loggers.
namespace giro::detail {

// The columns that every CSV line begins with.
inline constexpr std::string_view kCsvElapsed = "steps,samples,time";
void append_csv(std::string& text, const Elapsed& elapsed);
void append_csv(std::string& text, double number);
// The name of an entry's column; it depends only on the entry. It is a metric's name, or "collection.name" for an entry
// of another collection and for a metric that has a dot in its name or is named like a column of kCsvElapsed.
std::string csv_column(std::string_view collection, std::string_view name);
// Quoted if RFC 4180 requires it.
std::string csv_cell(const std::string& text);

// JSON has no numbers for non-finite values: they are null. Readers of tables refuse a column in which a number is
// followed by a text, or make all of it text, and many readers refuse a bare NaN.
void append_json(std::string& text, double number);
// The beginning of every JSONL line, {"elapsed":{...}. The caller closes the outer object.
inline constexpr std::string_view kJsonlBegin = R"({"elapsed":{"steps":)";
void append_json(std::string& text, const Elapsed& elapsed);

// With the same NaN for all: one with a sign would be printed as "-nan".
double without_nan_sign(double number);

}  // namespace giro::detail
