#include "report/page/svg_png.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/file_io.h"

namespace ridgeline {
namespace {

// Declared here, so that building does not need the headers of either library.
struct RsvgRectangle {
  double x, y, width, height;
};
constexpr int kArgb32 = 0;  // CAIRO_FORMAT_ARGB32
using WriteFunction = int (*)(void* closure, const unsigned char* data, unsigned int length);

class Library {
 public:
  Library(const char* name, const char* package) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_)
      throw Error(ErrorKind::unsupported, fmt::format("PNG needs {}, which is not installed", name),
                  fmt::format("apt-get install {}, or write .svg, which needs nothing", package));
  }
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (!function)
      throw Error(ErrorKind::unsupported, fmt::format("librsvg or cairo has no '{}'", name),
                  "librsvg 2.46 or newer is needed; write .svg instead");
  }

 private:
  void* handle_;  // kept open: GObject cannot be unloaded
};

struct Functions {
  void* (*new_from_data)(const unsigned char*, size_t, void** error);
  int (*get_size)(void* handle, double* width, double* height);
  int (*render)(void* handle, void* cairo, const RsvgRectangle*, void** error);
  void (*unref)(void* object);
  void* (*surface_create)(int format, int width, int height);
  void* (*create)(void* surface);
  void (*destroy)(void* cairo);
  void (*surface_destroy)(void* surface);
  int (*write_png)(void* surface, WriteFunction, void* closure);

  Functions() {
    const Library rsvg("librsvg-2.so.2", "librsvg2-2"), cairo("libcairo.so.2", "libcairo2"),
        gobject("libgobject-2.0.so.0", "libglib2.0-0");
    rsvg.find("rsvg_handle_new_from_data", new_from_data);
    rsvg.find("rsvg_handle_get_intrinsic_size_in_pixels", get_size);
    rsvg.find("rsvg_handle_render_document", render);
    gobject.find("g_object_unref", unref);
    cairo.find("cairo_image_surface_create", surface_create);
    cairo.find("cairo_create", create);
    cairo.find("cairo_destroy", destroy);
    cairo.find("cairo_surface_destroy", surface_destroy);
    cairo.find("cairo_surface_write_to_png_stream", write_png);
  }
};

using Handle = std::unique_ptr<void, void (*)(void*)>;

[[noreturn]] void failed(const char* step) {
  throw Error(ErrorKind::environment,
              fmt::format("the picture could not be drawn: {} failed", step), "write .svg instead");
}

}  // namespace

void write_png(const std::filesystem::path& path, const std::string& svg, double pixels_per_unit) {
  static const Functions f;
  const Handle picture(
      f.new_from_data(reinterpret_cast<const unsigned char*>(svg.data()), svg.size(), nullptr),
      f.unref);
  double width = 0, height = 0;
  if (!picture || !f.get_size(picture.get(), &width, &height)) failed("reading the SVG");
  const RsvgRectangle whole{0, 0, std::ceil(width * pixels_per_unit),
                            std::ceil(height * pixels_per_unit)};
  const Handle surface(
      f.surface_create(kArgb32, static_cast<int>(whole.width), static_cast<int>(whole.height)),
      f.surface_destroy);
  const Handle cairo(f.create(surface.get()), f.destroy);
  if (!f.render(picture.get(), cairo.get(), &whole, nullptr)) failed("rendering");
  std::string png;
  const auto append = [](void* closure, const unsigned char* data, unsigned int length) {
    static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
    return 0;
  };
  if (f.write_png(surface.get(), append, &png) != 0) failed("encoding");
  write_file_atomically(path, png);
}

}  // namespace ridgeline
