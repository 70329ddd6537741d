#include "serve/answer.h"

#include <utility>

namespace mlxcel::serve {

Answer::Answer(std::shared_ptr<Exchange> exchange, std::shared_ptr<StreamTee> tee)
    : exchange_(std::move(exchange)), tee_(std::move(tee)) {}

void Answer::reply(HttpResponse response) {
  if (std::exchange(finished_, true)) return;
  exchange_->reply(std::move(response));
  if (tee_) tee_->finish();
}

void Answer::fail(const ApiError& error, wire::Envelope envelope) {
  if (finished_) return;
  if (!streaming_) return reply(wire::error_response(error, envelope));
  const Json body = wire::error_json(error, envelope);
  if (envelope == wire::Envelope::Anthropic) {
    event("error", body);
  } else {
    data(body);
  }
  finish();
}

void Answer::begin_events(std::chrono::milliseconds ping, std::string_view heartbeat) {
  streaming_ = true;
  // Proxies that buffer would hold tokens back; this header is understood by nginx.
  exchange_->begin_stream(200, "text/event-stream; charset=utf-8",
                          {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
  if (ping.count() > 0) exchange_->heartbeat(std::string(heartbeat), ping);
}

void Answer::data(const Json& payload) { data_text(payload.dump()); }

void Answer::data_text(std::string_view payload) {
  std::string frame;
  frame.reserve(payload.size() + 8);
  frame += "data: ";
  frame += payload;
  frame += "\n\n";
  write(std::move(frame));
}

void Answer::event(std::string_view name, const Json& payload) {
  std::string frame = "event: ";
  frame += name;
  frame += "\ndata: ";
  frame += payload.dump();
  frame += "\n\n";
  write(std::move(frame));
}

void Answer::write(std::string frame) {
  if (finished_) return;
  if (tee_) tee_->append(frame);
  exchange_->write(std::move(frame));
}

void Answer::finish() {
  if (std::exchange(finished_, true)) return;
  exchange_->finish();
  if (tee_) tee_->finish();
}

}  // namespace mlxcel::serve
