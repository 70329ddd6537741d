// Carries events from the engine thread to one thread that parses and writes answers, so that the
// engine never waits for JSON.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace mlxcel::serve {

class EventReceiver {
 public:
  virtual ~EventReceiver() = default;
  /// On the pump's thread, in the order of the pushes.
  virtual void handle(uint32_t choice, engine::Event event) noexcept = 0;
};

class EventPump {
 public:
  EventPump();
  /// Events that arrive later are dropped. May run on the pump's own thread, when the last thing
  /// that an event kept alive owned the pump.
  ~EventPump();
  EventPump(const EventPump&) = delete;
  EventPump& operator=(const EventPump&) = delete;

  /// A sink of the engine whose events reach `receiver` with `choice`; it may outlive the pump.
  std::shared_ptr<engine::EventSink> sink(std::shared_ptr<EventReceiver> receiver, uint32_t choice);

 private:
  struct Item {
    std::shared_ptr<EventReceiver> receiver;
    uint32_t choice;
    engine::Event event;
  };
  struct Queue {
    std::mutex mutex;  // guards the rest
    std::condition_variable ready;
    std::vector<Item> items;
    bool stop = false;
  };
  class Sink;
  static void loop(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // shared with the sinks, which the engine holds
  std::thread thread_;
};

}  // namespace mlxcel::serve
