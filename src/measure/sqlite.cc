#include "measure/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/error.h"
#include "base/file_io.h"

namespace ridgeline {
namespace {

// Long enough for another run to finish its write.
constexpr int kPatienceMs = 10'000;

}  // namespace

Database::Database(const std::filesystem::path& file, Open open)
    : file_(file), handle_(nullptr, sqlite3_close_v2) {
  if (open == Open::create) create_parent_directories(file);
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | (open == Open::create ? SQLITE_OPEN_CREATE : 0);
  const int result = sqlite3_open_v2(file.c_str(), &raw, flags, nullptr);
  handle_.reset(raw);
  if (result != SQLITE_OK) fail("open");
  sqlite3_busy_timeout(handle_.get(), kPatienceMs);
  sqlite3_extended_result_codes(handle_.get(), 1);
  run("PRAGMA foreign_keys = ON");
}

void Database::fail(std::string_view doing) const {
  const int code = handle_ ? sqlite3_errcode(handle_.get()) & 0xff : SQLITE_NOMEM;
  const bool users = code == SQLITE_NOTADB || code == SQLITE_CANTOPEN || code == SQLITE_CORRUPT ||
                     code == SQLITE_PERM || code == SQLITE_READONLY;
  const std::string why = handle_ ? sqlite3_errmsg(handle_.get()) : "out of memory";
  throw Error(users ? ErrorKind::usage : ErrorKind::environment,
              fmt::format("cannot {} '{}': {}", doing, file_.string(), why),
              code == SQLITE_BUSY ? "another run is writing to it; try again"
              : users             ? "give the path of a history that ridgeline wrote"
                                  : "");
}

Statement Database::prepare(std::string_view sql, std::initializer_list<SqlValue> values) const {
  sqlite3_stmt* raw = nullptr;
  const int length = static_cast<int>(sql.size());
  if (sqlite3_prepare_v2(handle_.get(), sql.data(), length, &raw, nullptr) != SQLITE_OK)
    fail("read");
  Statement statement(*this, {raw, sqlite3_finalize});
  int index = 0;
  for (const SqlValue& value : values) {
    ++index;
    int result = SQLITE_OK;
    if (const auto* integer = std::get_if<int64_t>(&value))
      result = sqlite3_bind_int64(raw, index, *integer);
    else if (const auto* number = std::get_if<double>(&value))
      result = sqlite3_bind_double(raw, index, *number);
    else if (const auto* text = std::get_if<std::string_view>(&value))
      result =
          sqlite3_bind_text64(raw, index, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
    if (result != SQLITE_OK) fail("use");
  }
  return statement;
}

void Database::run(std::string_view sql, std::initializer_list<SqlValue> values) const {
  Statement statement = prepare(sql, values);
  while (statement.step()) {
  }
}

int64_t Database::last_insert_id() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

bool Statement::step() {
  const int result = sqlite3_step(handle_.get());
  if (result != SQLITE_ROW && result != SQLITE_DONE) database_->fail("use");
  return result == SQLITE_ROW;
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

double Statement::number(int column) const {
  return sqlite3_column_double(handle_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), column));
  return text ? std::string(text, static_cast<size_t>(sqlite3_column_bytes(handle_.get(), column)))
              : std::string();
}

Transaction::Transaction(const Database& database) : database_(database) {
  database_.run("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const Error&) {  // the error that caused the rollback is the one to report
  }
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace ridgeline
