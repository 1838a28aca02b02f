#pragma once

#include <string>
#include <string_view>

#include <giro/loop/time/elapsed.h>

// How records of logs are written to text files, by the history's exports and by the loggers alike.
namespace giro::detail {

// What a line of CSV begins with.
inline constexpr std::string_view kCsvElapsed = "steps,samples,time";
void append_csv(std::string& text, const Elapsed& elapsed);
void append_csv(std::string& text, double number);
// The name of an entry's column, which follows from the entry alone: a metric's name, or "collection.name" of what is
// in another collection, and of a metric whose name has a dot or is one of kCsvElapsed.
std::string csv_column(std::string_view collection, std::string_view name);
// Quoted where RFC 4180 wants it.
std::string csv_cell(const std::string& text);

std::string json_string(const std::string& text);
// JSON has no numbers that are not finite: they are the strings "NaN", "Infinity" and "-Infinity".
void append_json(std::string& text, double number);
// What a line of JSONL begins with, which is an object that is to be ended: {"elapsed":{...}
inline constexpr std::string_view kJsonlBegin = R"({"elapsed":{"steps":)";
void append_json(std::string& text, const Elapsed& elapsed);

// A NaN with a sign would be printed as "-nan".
double without_nan_sign(double number);

}  // namespace giro::detail
