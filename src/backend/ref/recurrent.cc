#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/ref/ref.h"

// States are kept in f32 between tokens, as their storage demands; within a token sums are f64.
namespace mlxcel::ref {
namespace {

double f64(float x) { return static_cast<double>(x); }
float f32(double x) { return static_cast<float>(x); }
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

void causal_conv1d(const ops::ConvArgs& a) {
  const int64_t wide = a.outputs * a.channels, kept = a.taps - 1;
  for (const ops::StateSegment& s : a.segments) {
    float* state = a.state + s.state_row * kept * a.channels;
    for (int64_t c = 0; c < a.channels; ++c) {
      std::vector<float> line;  // the remembered inputs, then the new ones
      for (int64_t j = 0; j < kept; ++j) line.push_back(state[j * a.channels + c]);
      for (int64_t t = 0; t < s.q_len; ++t) line.push_back(a.x.row(s.row + t)[c]);
      for (int64_t t = 0; t < s.q_len; ++t) {
        for (int64_t m = 0; m < a.outputs; ++m) {
          const int64_t o = m * a.channels + c;
          double sum = a.bias != nullptr ? f64(a.bias[o]) : 0.0;
          for (int64_t j = 0; j < a.taps; ++j) {
            sum += f64(a.weight[j * wide + o]) * f64(line[static_cast<size_t>(t + j)]);
          }
          a.out[(s.row + t) * wide + o] = f32(a.silu ? sum * sigmoid(sum) : sum);
        }
      }
      for (int64_t j = 0; j < kept; ++j) {
        state[j * a.channels + c] = line[static_cast<size_t>(s.q_len + j)];
      }
    }
  }
}

template <class Fn>
void columns(const ops::ColumnArgs& a, Fn fn) {
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t i = 0; i < a.dim; ++i) {
      const double bias = a.bias != nullptr ? f64(a.bias[i]) : 0.0;
      const double factor = a.factor != nullptr ? f64(a.factor[i]) : 1.0;
      a.out[t * a.dim + i] = f32(fn(f64(a.x.row(t)[i]), bias, factor));
    }
  }
}

void block_linear(const ops::BlockLinearArgs& a) {
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      for (int64_t o = 0; o < a.out_dim; ++o) {
        double sum = a.bias != nullptr ? f64(a.bias[h * a.out_dim + o]) : 0.0;
        for (int64_t i = 0; i < a.in; ++i) {
          sum += f64(a.x.row(t)[h * a.in + i]) * f64(a.w[(h * a.in + i) * a.out_dim + o]);
        }
        a.out[(t * a.heads + h) * a.out_dim + o] = f32(sum);
      }
    }
  }
}

void head_dot_scale(const ops::HeadDotArgs& a) {
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t at = h * a.dim;
      double dot = 0;
      for (int64_t i = 0; i < a.dim; ++i) dot += f64(a.a.row(t)[at + i]) * f64(a.b.row(t)[at + i]);
      for (int64_t i = 0; i < a.dim; ++i) {
        a.out[t * a.heads * a.dim + at + i] = f32(dot * f64(a.v.row(t)[at + i]));
      }
    }
  }
}

void selective_scan(const ops::SelectiveScanArgs& a) {
  for (const ops::StateSegment& s : a.segments) {
    float* state = a.state + s.state_row * a.states * a.channels;
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      for (int64_t c = 0; c < a.channels; ++c) {
        const double dt = f64(a.dt.row(t)[c]), x = f64(a.x.row(t)[c]);
        double y = f64(a.d[c]) * x;
        for (int64_t n = 0; n < a.states; ++n) {
          float& h = state[n * a.channels + c];
          h = f32(std::exp(dt * f64(a.a[n * a.channels + c])) * f64(h) +
                  dt * f64(a.b.row(t)[n]) * x);
          y += f64(h) * f64(a.c.row(t)[n]);
        }
        a.out[t * a.channels + c] = f32(y);
      }
    }
  }
}

void ssd_scan(const ops::SsdArgs& a) {
  for (const ops::StateSegment& s : a.segments) {
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      for (int64_t h = 0; h < a.heads; ++h) {
        float* state = a.state + (s.state_row * a.heads + h) * a.states * a.head_dim;
        const int64_t group = h / (a.heads / a.groups) * a.states;
        const double dt = f64(a.dt.row(t)[h]), decay = std::exp(dt * f64(a.a[h]));
        for (int64_t p = 0; p < a.head_dim; ++p) {
          const double x = f64(a.x.row(t)[h * a.head_dim + p]);
          double y = f64(a.d[h]) * x;
          for (int64_t n = 0; n < a.states; ++n) {
            float& cell = state[n * a.head_dim + p];
            cell = f32(decay * f64(cell) + dt * f64(a.b.row(t)[group + n]) * x);
            y += f64(cell) * f64(a.c.row(t)[group + n]);
          }
          a.out[(t * a.heads + h) * a.head_dim + p] = f32(y);
        }
      }
    }
  }
}

void delta_scan(const ops::DeltaArgs& a) {
  for (const ops::StateSegment& s : a.segments) {
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      for (int64_t h = 0; h < a.heads; ++h) {
        float* state = a.state + (s.state_row * a.heads + h) * a.k_dim * a.v_dim;
        const int64_t key = h / (a.heads / a.key_heads) * a.k_dim;
        const float* k = a.k.row(t) + key;
        const float* q = a.q.row(t) + key;
        for (int64_t v = 0; v < a.v_dim; ++v) {
          double read = 0;
          for (int64_t i = 0; i < a.k_dim; ++i) {
            const float decay = a.decay.row(t)[a.decay_by_element ? h * a.k_dim + i : h];
            float& cell = state[i * a.v_dim + v];
            cell = f32(f64(decay) * f64(cell));
            read += f64(cell) * f64(k[i]);
          }
          const double change = (f64(a.v.row(t)[h * a.v_dim + v]) - read) * f64(a.beta.row(t)[h]);
          double y = 0;
          for (int64_t i = 0; i < a.k_dim; ++i) {
            float& cell = state[i * a.v_dim + v];
            cell = f32(f64(cell) + f64(k[i]) * change);
            y += f64(cell) * f64(q[i]);
          }
          a.out[(t * a.heads + h) * a.v_dim + v] = f32(y);
        }
      }
    }
  }
}

void rwkv7_scan(const ops::Rwkv7Args& a) {
  for (const ops::StateSegment& s : a.segments) {
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      for (int64_t h = 0; h < a.heads; ++h) {
        float* state = a.state + (s.state_row * a.heads + h) * a.dim * a.dim;
        const int64_t at = h * a.dim;
        for (int64_t v = 0; v < a.dim; ++v) {
          double read = 0;
          for (int64_t i = 0; i < a.dim; ++i) {
            read += f64(state[i * a.dim + v]) * f64(a.a.row(t)[at + i]);
          }
          double y = 0;
          for (int64_t i = 0; i < a.dim; ++i) {
            float& cell = state[i * a.dim + v];
            cell = f32(f64(cell) * f64(a.w.row(t)[at + i]) +
                       f64(a.k.row(t)[at + i]) * f64(a.v.row(t)[at + v]) +
                       f64(a.b.row(t)[at + i]) * read);
            y += f64(cell) * f64(a.r.row(t)[at + i]);
          }
          a.out[t * a.heads * a.dim + at + v] = f32(y);
        }
      }
    }
  }
}

void rg_lru_scan(const ops::RgLruArgs& a) {
  for (const ops::StateSegment& s : a.segments) {
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      for (int64_t i = 0; i < a.width; ++i) {
        const double log_decay = f64(a.factor[i]) * sigmoid(f64(a.recurrence.row(t)[i]));
        const bool first = a.positions[t] == 0;
        const double decay = first ? 0.0 : std::exp(log_decay);
        const double root = first ? 1.0 : std::sqrt(-std::expm1(2.0 * log_decay));
        float& h = a.state[s.state_row * a.width + i];
        h = f32(decay * f64(h) + root * sigmoid(f64(a.input.row(t)[i])) * f64(a.x.row(t)[i]));
        a.out[t * a.width + i] = h;
      }
    }
  }
}

}  // namespace

void register_recurrent(ops::RecurrentTable& t) {
  t.causal_conv1d = causal_conv1d;
  t.softplus = [](const ops::ColumnArgs& a) {
    columns(a, [&](double x, double bias, double) {
      return std::clamp(softplus(x + bias), f64(a.low), f64(a.high));
    });
  };
  t.softplus_decay = [](const ops::ColumnArgs& a) {
    columns(a, [](double x, double bias, double factor) {
      return std::exp(factor * softplus(x + bias));
    });
  };
  t.scale_columns = [](const ops::ColumnArgs& a) {
    columns(a, [](double x, double bias, double factor) { return x * factor + bias; });
  };
  t.block_linear = block_linear;
  t.head_dot_scale = head_dot_scale;
  t.join_columns = [](const ops::JoinArgs& a) {
    const int64_t wide = a.a_dim + a.b_dim;
    for (int64_t row = 0; row < a.tokens; ++row) {
      for (int64_t i = 0; i < wide; ++i) {
        a.out[row * wide + i] = i < a.a_dim ? a.a.row(row)[i] : a.b.row(row)[i - a.a_dim];
      }
    }
  };
  t.selective_scan = selective_scan;
  t.ssd_scan = ssd_scan;
  t.delta_scan = delta_scan;
  t.rwkv7_scan = rwkv7_scan;
  t.rg_lru_scan = rg_lru_scan;
}

}  // namespace mlxcel::ref
