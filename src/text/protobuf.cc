#include "text/protobuf.h"

#include <fmt/format.h>

#include <bit>

#include "base/damaged_file.h"

namespace ridgeline {
namespace {

Error not_a_message(const std::string& problem) {
  return damaged_file("is no protobuf message: " + problem);
}

// The unread part of a message.
class Rest {
 public:
  explicit Rest(std::string_view message) : rest_(message) {}

  bool empty() const { return rest_.empty(); }

  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size())
      throw not_a_message(
          fmt::format("a field of {} bytes where only {} are left", bytes, rest_.size()));
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  uint64_t take_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      if (shift == 63 && byte > 1) break;
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    throw not_a_message("a number of more than 64 bits");
  }
  uint64_t take_fixed(int bytes) {
    uint64_t value = 0;
    int shift = 0;
    for (const char byte : take(static_cast<uint64_t>(bytes))) {
      value |= uint64_t{static_cast<unsigned char>(byte)} << shift;
      shift += 8;
    }
    return value;
  }

 private:
  std::string_view rest_;
};

}  // namespace

void for_each_field(std::string_view message,
                    const std::function<void(const ProtobufField&)>& use) {
  using Wire = ProtobufField::Wire;
  constexpr uint64_t kLargestNumber = (uint64_t{1} << 29) - 1;  // the limit of the format
  Rest rest(message);
  while (!rest.empty()) {
    const uint64_t key = rest.take_varint();
    if (key >> 3 == 0 || key >> 3 > kLargestNumber)
      throw not_a_message(fmt::format("a field of number {}", key >> 3));
    ProtobufField field;
    field.number = static_cast<uint32_t>(key >> 3);
    field.wire_ = static_cast<Wire>(key & 7);
    switch (field.wire_) {
      case Wire::varint:
        field.value_ = rest.take_varint();
        break;
      case Wire::fixed64:
        field.value_ = rest.take_fixed(8);
        break;
      case Wire::fixed32:
        field.value_ = rest.take_fixed(4);
        break;
      case Wire::bytes:
        field.bytes_ = rest.take(rest.take_varint());
        break;
      default:
        throw not_a_message(fmt::format("the field {} is of wire type {}, expected 0, 1, 2 or 5",
                                        field.number, key & 7));
    }
    use(field);
  }
}

void ProtobufField::expect(Wire wire, const char* name) const {
  if (wire_ == wire) return;
  throw damaged_file(fmt::format("has the field {} as wire type {}, expected {}", number,
                                 static_cast<int>(wire_), name));
}

std::string_view ProtobufField::bytes() const {
  expect(Wire::bytes, "bytes");
  return bytes_;
}

float ProtobufField::number_fp32() const {
  expect(Wire::fixed32, "an fp32 number");
  return std::bit_cast<float>(static_cast<uint32_t>(value_));
}

bool ProtobufField::boolean() const {
  expect(Wire::varint, "true or false");
  return value_ != 0;
}

uint64_t ProtobufField::varint() const {
  expect(Wire::varint, "a whole number");
  return value_;
}

}  // namespace ridgeline
