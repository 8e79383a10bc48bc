// The wire format of protobuf, read with suspicion:
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

  // The value as what the schema says that it is; a usage error where it was written otherwise.
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

// The fields in the order of the message. Throws a usage error for what is no message: fields that
// are cut off, numbers of more than 64 bits, groups, the field 0.
void for_each_field(std::string_view message, const std::function<void(const ProtobufField&)>& use);

}  // namespace ridgeline
