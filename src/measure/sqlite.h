// A small SQLite wrapper: a file, statements, values, transactions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

struct sqlite3;
struct sqlite3_stmt;

namespace ridgeline {

class Database;

// A prepared statement with bound values; call step() until it returns false.
class Statement {
 public:
  bool step();
  int64_t integer(int column) const;
  double number(int column) const;
  std::string text(int column) const;

 private:
  friend class Database;
  using Handle = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;
  Statement(const Database& database, Handle handle)
      : database_(&database), handle_(std::move(handle)) {}

  const Database* database_;
  Handle handle_;
};

using SqlValue = std::variant<int64_t, double, std::string_view>;

class Database {
 public:
  enum class Open { existing, create };

  // Throws a usage error for a file that is not a database or not readable.
  Database(const std::filesystem::path& file, Open open);

  // One statement with a value for every question mark. Bound texts must outlive the statement.
  Statement prepare(std::string_view sql, std::initializer_list<SqlValue> values = {}) const;
  // Prepares a statement and steps it to completion.
  void run(std::string_view sql, std::initializer_list<SqlValue> values = {}) const;
  int64_t last_insert_id() const;

 private:
  friend class Statement;
  [[noreturn]] void fail(std::string_view doing) const;

  std::filesystem::path file_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle_;
};

// Rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(const Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  const Database& database_;
  bool open_ = true;
};

}  // namespace ridgeline
