#include "report/page/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ridgeline {
namespace {

// From the ordinary grey on, each fainter than the one before.
constexpr SeriesColour kGreys[] = {
    {"#6b7280", "#9aa3af"}, {"#979ea9", "#78818c"}, {"#b3b9c2", "#616973"}, {"#cbd0d7", "#4d545d"}};
constexpr SeriesColour kImplementations[] = {
    {"#b4530a", "#f2a65a"}, {"#1d5fa8", "#6db1f2"}, {"#0f7b5f", "#4fd0a5"},
    {"#8a3d8f", "#d996dd"}, {"#a3820a", "#e6cf5c"}, {"#b3305a", "#f08aa9"},
    {"#4c5560", "#b6bfca"}, {"#3f7d1e", "#9bd66f"}, {"#5a4fcf", "#a9a2ff"}};
// Of tensors and kinds of work; muted, as they fill areas.
constexpr SeriesColour kTensors[] = {
    {"#7c9cc4", "#4f6f99"}, {"#d9a878", "#96714a"}, {"#8fb58a", "#5c8257"}, {"#c48fa4", "#8d5b70"},
    {"#b3a9d3", "#746a9b"}, {"#cfc27a", "#8e834a"}, {"#86bcbd", "#4f8586"}, {"#c9b5a0", "#84705c"},
    {"#a3acb8", "#666f7b"}, {"#dc9a93", "#9c5f59"}, {"#a8c070", "#6d8440"}, {"#9db0dd", "#5f729e"}};

struct Own {
  std::string_view implementation;
  int colour;
};
constexpr Own kOwn[] = {{"naive", 0}, {"flash", 1}, {"compiled", 2}, {"vanilla", 3},
                        {"tiled", 4}, {"simd", 5},  {"library", 6},  {"fused", 7}};

struct NamedPalette {
  char letter;
  std::span<const SeriesColour> colours;
};
constexpr NamedPalette kPalettes[] = {{'c', kImplementations}, {'t', kTensors}, {'g', kGreys}};

struct PalettePlace {
  const NamedPalette& palette;
  size_t index;
};

PalettePlace palette_place(const ChartSeries& series) {
  if (series.colour < 0)
    return {kPalettes[2],
            std::min(static_cast<size_t>(-(series.colour + 1)), std::size(kGreys) - 1)};
  const NamedPalette& palette = kPalettes[series.palette == ChartSeries::Palette::tensors ? 1 : 0];
  return {palette, static_cast<size_t>(series.colour) % palette.colours.size()};
}

}  // namespace

std::span<const SeriesColour> implementation_colours() {
  return kImplementations;
}

const SeriesColour& colour_of(const ChartSeries& series) {
  const auto [palette, index] = palette_place(series);
  return palette.colours[index];
}

std::string colour_class(const ChartSeries& series) {
  const auto [palette, index] = palette_place(series);
  return fmt::format("{}{}", palette.letter, index);
}

std::string palette_css() {
  std::string light, dark;
  for (const NamedPalette& named : kPalettes)
    for (size_t i = 0; i < named.colours.size(); ++i) {
      light += fmt::format(".{}{}{{color:{}}}", named.letter, i, named.colours[i].light);
      dark += fmt::format(".{}{}{{color:{}}}", named.letter, i, named.colours[i].dark);
    }
  return fmt::format("{}\n@media screen and (prefers-color-scheme:dark){{{}}}\n", light, dark);
}

int own_colour(std::string_view implementation) {
  const auto* own = std::ranges::find(kOwn, implementation, &Own::implementation);
  return own == std::end(kOwn) ? -1 : own->colour;
}

}  // namespace ridgeline
