# Writes OUTPUT, a C++ file with the text of each of FILES, as the function that HEADER declares:
# std::span<const EmbeddedText> FUNCTION();
# cmake -DOUTPUT=... -DHEADER=kernels/cuda/embedded.h -DFUNCTION=cuda_texts "-DFILES=a;b" -P embed_text.cmake
set(rows "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  string(APPEND rows "    {\"${name}\", R\"__text__(${text})__text__\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

namespace ridgeline {

std::span<const EmbeddedText> ${FUNCTION}() {
  static constexpr EmbeddedText kTexts[] = {
${rows}  };
  return kTexts;
}

}  // namespace ridgeline
")
