#include "text/grammar/dfa.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"

namespace mlxcel::text::grammar {

namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9E3779B97F4A7C15ULL + (h << 6) + (h >> 2);
  return h * 0xFF51AFD7ED558CCDULL;
}

/// Renumbers byte classes so that classes with equal columns become one.
void merge_classes(Dfa& dfa) {
  const uint32_t n = dfa.num_states();
  std::map<std::vector<uint32_t>, uint8_t> columns;
  std::vector<uint8_t> renamed(dfa.num_classes);
  std::vector<std::vector<uint32_t>> kept;
  // In the order of the bytes, so that equal languages get equal tables.
  std::vector<uint8_t> seen(dfa.num_classes, 0);
  for (size_t b = 0; b < 256; ++b) {
    const uint8_t c = dfa.classes[b];
    if (seen[c] != 0) continue;
    seen[c] = 1;
    std::vector<uint32_t> column(n);
    for (uint32_t s = 0; s < n; ++s) column[s] = dfa.next[s * dfa.num_classes + c];
    const auto [it, fresh] = columns.emplace(column, static_cast<uint8_t>(kept.size()));
    if (fresh) kept.push_back(std::move(column));
    renamed[c] = it->second;
  }
  for (uint8_t& c : dfa.classes) c = renamed[c];
  dfa.num_classes = static_cast<uint32_t>(kept.size());
  dfa.next.assign(size_t{n} * dfa.num_classes, 0);
  for (uint32_t s = 0; s < n; ++s) {
    for (uint32_t c = 0; c < dfa.num_classes; ++c) dfa.next[s * dfa.num_classes + c] = kept[c][s];
  }
}

std::vector<uint8_t> can_accept(const Dfa& raw) {
  const uint32_t n = raw.num_states();
  std::vector<std::vector<uint32_t>> before(n);
  for (uint32_t s = 0; s < n; ++s) {
    uint32_t last = UINT32_MAX;
    for (uint32_t c = 0; c < raw.num_classes; ++c) {
      const uint32_t t = raw.next[s * raw.num_classes + c];
      if (t != Dfa::kDead && t != last) before[t].push_back(s);
      last = t;
    }
  }
  std::vector<uint8_t> live(n, 0);
  std::vector<uint32_t> work;
  for (uint32_t s = 1; s < n; ++s) {
    if (raw.accepting[s] != 0) {
      live[s] = 1;
      work.push_back(s);
    }
  }
  while (!work.empty()) {
    const uint32_t s = work.back();
    work.pop_back();
    for (const uint32_t p : before[s]) {
      if (live[p] == 0) {
        live[p] = 1;
        work.push_back(p);
      }
    }
  }
  return live;
}

}  // namespace

bool Dfa::matches(std::string_view text) const {
  if (empty()) return false;
  uint32_t s = kStart;
  for (const char c : text) {
    s = step(s, static_cast<uint8_t>(c));
    if (s == kDead) return false;
  }
  return accepts(s);
}

bool Dfa::final_only(uint32_t state) const {
  const auto* row = next.data() + size_t{state} * num_classes;
  return std::all_of(row, row + num_classes, [](uint32_t t) { return t == kDead; });
}

Dfa trimmed(const Dfa& raw, uint32_t start) {
  Dfa out;
  const std::vector<uint8_t> live = can_accept(raw);
  if (start == Dfa::kDead || live[start] == 0) {
    out.next.assign(1, 0);
    return out;
  }
  std::vector<uint32_t> number(raw.num_states(), 0);
  std::vector<uint32_t> order{start};
  number[start] = 1;
  out.classes = raw.classes;
  out.num_classes = raw.num_classes;
  out.next.assign(raw.num_classes, 0);
  for (size_t i = 0; i < order.size(); ++i) {
    for (uint32_t c = 0; c < raw.num_classes; ++c) {
      const uint32_t t = raw.next[size_t{order[i]} * raw.num_classes + c];
      if (t != Dfa::kDead && live[t] != 0 && number[t] == 0) {
        order.push_back(t);
        number[t] = static_cast<uint32_t>(order.size());
      }
      out.next.push_back(t != Dfa::kDead && live[t] != 0 ? number[t] : 0);
    }
    out.accepting.push_back(raw.accepting[order[i]]);
  }
  merge_classes(out);
  return out;
}

Dfa combine(const Dfa& a, const Dfa& b, SetOp op, size_t max_states) {
  const Dfa nothing{.next = std::vector<uint32_t>(1, 0)};
  if (a.empty() && (op != SetOp::Or || b.empty())) return nothing;
  if (b.empty()) return op == SetOp::And ? nothing : a;
  if (a.empty()) return b;
  Dfa raw;
  std::map<std::pair<uint8_t, uint8_t>, uint8_t> pairs;
  std::vector<std::pair<uint8_t, uint8_t>> columns;
  for (size_t i = 0; i < 256; ++i) {
    const std::pair<uint8_t, uint8_t> p{a.classes[i], b.classes[i]};
    const auto [it, fresh] = pairs.emplace(p, static_cast<uint8_t>(columns.size()));
    if (fresh) columns.push_back(p);
    raw.classes[i] = it->second;
  }
  raw.num_classes = static_cast<uint32_t>(columns.size());
  raw.next.assign(raw.num_classes, 0);
  std::unordered_map<uint64_t, uint32_t> ids;
  std::vector<std::pair<uint32_t, uint32_t>> states;
  const auto id_of = [&](uint32_t x, uint32_t y) -> uint32_t {
    if (x == 0 && (op != SetOp::Or || y == 0)) return 0;
    if (y == 0 && op == SetOp::And) return 0;
    const auto [it, fresh] =
        ids.emplace((uint64_t{x} << 32) | y, static_cast<uint32_t>(states.size() + 1));
    if (fresh) {
      if (states.size() >= max_states) {
        throw Error(Code::ResourceExhausted,
                    fmt::format("the automaton needs more than {} states", max_states));
      }
      states.emplace_back(x, y);
    }
    return it->second;
  };
  id_of(Dfa::kStart, Dfa::kStart);
  for (size_t i = 0; i < states.size(); ++i) {
    const auto [x, y] = states[i];
    for (const auto& [ca, cb] : columns) {
      raw.next.push_back(
          id_of(a.next[size_t{x} * a.num_classes + ca], b.next[size_t{y} * b.num_classes + cb]));
    }
    const bool in_a = a.accepts(x);
    const bool in_b = b.accepts(y);
    const bool in = op == SetOp::And  ? in_a && in_b
                    : op == SetOp::Or ? in_a || in_b
                                      : in_a && !in_b;
    raw.accepting.push_back(in ? 1 : 0);
  }
  return minimized(trimmed(raw, Dfa::kStart));
}

Dfa minimized(const Dfa& dfa) {
  const uint32_t n = dfa.num_states();
  if (n <= 2) return dfa;
  constexpr int kRounds = 40;  // long chains need one round a state: they stay as they are
  std::vector<uint32_t> block(n);
  for (uint32_t s = 0; s < n; ++s) block[s] = s == 0 ? 0 : dfa.accepting[s] != 0 ? 2 : 1;
  size_t num_blocks = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::unordered_map<uint64_t, uint32_t> ids;
    std::vector<uint32_t> refined(n);
    for (uint32_t s = 0; s < n; ++s) {
      uint64_t h = mix(1, block[s]);
      for (uint32_t c = 0; c < dfa.num_classes; ++c) {
        h = mix(h, block[dfa.next[size_t{s} * dfa.num_classes + c]]);
      }
      refined[s] = ids.emplace(h, static_cast<uint32_t>(ids.size())).first->second;
    }
    const bool stable = ids.size() == num_blocks;
    num_blocks = ids.size();
    block = std::move(refined);
    if (!stable) continue;
    if (num_blocks == n) return dfa;
    // Blocks are numbered by first appearance, so the dead state stays 0 and the start 1.
    Dfa out{.classes = dfa.classes, .num_classes = dfa.num_classes};
    out.next.assign(num_blocks * dfa.num_classes, 0);
    out.accepting.assign(num_blocks, 0);
    for (uint32_t s = 0; s < n; ++s) {
      out.accepting[block[s]] = dfa.accepting[s];
      for (uint32_t c = 0; c < dfa.num_classes; ++c) {
        out.next[size_t{block[s]} * dfa.num_classes + c] =
            block[dfa.next[size_t{s} * dfa.num_classes + c]];
      }
    }
    return trimmed(out, Dfa::kStart);
  }
  return dfa;
}

Dfa dfa_of_words(const std::vector<std::string_view>& words) {
  std::vector<std::map<uint8_t, uint32_t>> nodes(2);
  std::vector<uint8_t> accepting{0, 0};
  std::array<uint8_t, 256> used{};
  for (const std::string_view word : words) {
    uint32_t s = Dfa::kStart;
    for (const char c : word) {
      const auto b = static_cast<uint8_t>(c);
      used[b] = 1;
      const auto [it, fresh] = nodes[s].emplace(b, static_cast<uint32_t>(nodes.size()));
      s = it->second;
      if (fresh) {
        nodes.emplace_back();
        accepting.push_back(0);
      }
    }
    accepting[s] = 1;
  }
  Dfa raw;
  uint32_t classes = 1;  // 0: bytes of no word
  for (size_t b = 0; b < 256; ++b) {
    raw.classes[b] = used[b] != 0 ? static_cast<uint8_t>(classes++ & 255) : uint8_t{0};
  }
  if (classes > 256) {  // every byte is used: no class of unused ones
    for (size_t b = 0; b < 256; ++b) raw.classes[b] = static_cast<uint8_t>(b);
    classes = 256;
  }
  raw.num_classes = classes;
  raw.next.assign(nodes.size() * classes, 0);
  for (size_t s = 0; s < nodes.size(); ++s) {
    for (const auto& [b, t] : nodes[s]) raw.next[s * classes + raw.classes[b]] = t;
  }
  raw.accepting = std::move(accepting);
  return minimized(trimmed(raw, Dfa::kStart));
}

Dfa concat_byte(const Dfa& dfa, uint8_t byte) {
  if (dfa.empty()) return dfa;
  Dfa raw = dfa;
  // A class of its own for `byte`; accepting states must not have an edge on it already.
  const uint32_t n = dfa.num_states();
  const uint8_t old = dfa.classes[byte];
  const uint32_t nc = dfa.num_classes + 1;
  MLXCEL_CHECK(nc <= 256, "too many byte classes");
  raw.classes[byte] = static_cast<uint8_t>(dfa.num_classes);
  raw.num_classes = nc;
  raw.next.assign(size_t{n + 1} * nc, 0);
  raw.accepting.assign(n + 1, 0);
  raw.accepting[n] = 1;
  for (uint32_t s = 0; s < n; ++s) {
    for (uint32_t c = 0; c < dfa.num_classes; ++c) {
      raw.next[size_t{s} * nc + c] = dfa.next[size_t{s} * dfa.num_classes + c];
    }
    const uint32_t t = dfa.next[size_t{s} * dfa.num_classes + old];
    MLXCEL_CHECK(!dfa.accepts(s) || t == 0, "the closing byte is part of the language");
    raw.next[size_t{s} * nc + dfa.num_classes] = dfa.accepts(s) ? n : t;
  }
  return trimmed(raw, Dfa::kStart);
}

uint64_t count_words(const Dfa& dfa, uint64_t cap) {
  if (dfa.empty()) return 0;
  const uint32_t n = dfa.num_states();
  std::vector<uint8_t> mark(n, 0);  // 1 on the path, 2 counted
  std::vector<uint64_t> count(n, 0);
  std::vector<std::pair<uint32_t, size_t>> path{{Dfa::kStart, 0}};
  mark[Dfa::kStart] = 1;
  count[Dfa::kStart] = dfa.accepts(Dfa::kStart) ? 1 : 0;
  while (!path.empty()) {
    auto& [s, b] = path.back();
    if (b == 256) {
      mark[s] = 2;
      const uint64_t total = count[s];
      path.pop_back();
      if (!path.empty()) {
        uint64_t& parent = count[path.back().first];
        parent = std::min(cap, parent + total);
      }
      continue;
    }
    const uint32_t t = dfa.step(s, static_cast<uint8_t>(b++));
    if (t == Dfa::kDead) continue;
    if (mark[t] == 1) return cap;  // a cycle: infinitely many
    if (mark[t] == 2) {
      count[s] = std::min(cap, count[s] + count[t]);
      continue;
    }
    mark[t] = 1;
    count[t] = dfa.accepts(t) ? 1 : 0;
    path.emplace_back(t, 0);
  }
  return std::min(cap, count[Dfa::kStart]);
}

uint64_t hash_of(const Dfa& dfa) {
  uint64_t h = mix(7, dfa.num_states());
  for (const uint8_t c : dfa.classes) h = mix(h, c);
  for (const uint32_t t : dfa.next) h = mix(h, t);
  for (const uint8_t a : dfa.accepting) h = mix(h, a);
  return h;
}

}  // namespace mlxcel::text::grammar
