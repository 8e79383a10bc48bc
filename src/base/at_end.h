// Calls a function at the end of its scope, also after an error.
//
//   ledger.keep_events(true);
//   const AtEnd stop([&] { ledger.keep_events(false); });
#pragma once

namespace ridgeline {

template <class Function>
class AtEnd {
 public:
  explicit AtEnd(Function function) : function_(function) {}
  ~AtEnd() { function_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  Function function_;
};

}  // namespace ridgeline
