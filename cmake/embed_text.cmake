# Writes OUTPUT, a C++ file with the text of each of FILES, for src/kernels/cuda/embedded.h.
# cmake -DOUTPUT=... "-DFILES=a;b" -P embed_text.cmake
set(rows "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  string(APPEND rows "    {\"${name}\", R\"__text__(${text})__text__\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"kernels/cuda/embedded.h\"

namespace ridgeline {

std::span<const EmbeddedText> cuda_texts() {
  static constexpr EmbeddedText kTexts[] = {
${rows}  };
  return kTexts;
}

}  // namespace ridgeline
")
