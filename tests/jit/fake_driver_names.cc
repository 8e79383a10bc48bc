// The functions of the stand-in driver that succeed: names of errors, and a version, CUDA 12.8.

extern "C" int cuGetErrorName(int error, const char** name) {
  *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}

extern "C" int cuGetErrorString(int error, const char** text) {
  *text = error == 100 ? "no CUDA-capable device is detected" : "unknown error";
  return 0;
}

extern "C" int cuDriverGetVersion(int* version) {
  *version = 12080;
  return 0;
}
