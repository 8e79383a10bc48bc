// Reads the protobuf wire format from untrusted files:
//
//   for_each_field(bytes, [&](const ProtobufField& field) {
//     if (field.number == 1) name = field.bytes();
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace ridgeline {

class ProtobufField {
 public:
  enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  uint32_t number = 0;

  // The value as the schema's type; throws a usage error if its wire type is another.
  std::string_view bytes() const;
  float number_fp32() const;
  bool boolean() const;
  uint64_t varint() const;

 private:
  friend void for_each_field(std::string_view, const std::function<void(const ProtobufField&)>&);
  void expect(Wire wire, const char* name) const;

  Wire wire_ = Wire::varint;
  uint64_t value_ = 0;
  std::string_view bytes_;
};

// Calls `use` for each field in order. Throws a usage error for a malformed message: truncated
// fields, varints of more than 64 bits, groups, field numbers out of range.
void for_each_field(std::string_view message, const std::function<void(const ProtobufField&)>& use);

}  // namespace ridgeline
