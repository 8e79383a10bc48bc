// A library that opens and has none of the functions that anybody looks for.
extern "C" int ridgeline_fake_library() {
  return 1;
}
