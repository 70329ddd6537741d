#include "serve/event_pump.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace mlxcel::serve {

class EventPump::Sink final : public engine::EventSink {
 public:
  Sink(std::shared_ptr<Queue> queue, std::shared_ptr<EventReceiver> receiver, uint32_t choice)
      : queue_(std::move(queue)), receiver_(std::move(receiver)), choice_(choice) {}

  void push(engine::Event event) noexcept override {
    try {
      bool was_empty = false;
      {
        const std::lock_guard lock(queue_->mutex);
        if (queue_->stop) return;
        was_empty = queue_->items.empty();
        queue_->items.push_back({receiver_, choice_, std::move(event)});
      }
      if (was_empty) queue_->ready.notify_one();
    } catch (const std::exception& e) {
      log::error("an event of the engine was lost: {}", e.what());
    }
  }

 private:
  std::shared_ptr<Queue> queue_;
  std::shared_ptr<EventReceiver> receiver_;  // until the engine drops its sink
  uint32_t choice_;
};

EventPump::EventPump()
    : queue_(std::make_shared<Queue>()), thread_([queue = queue_] { loop(queue); }) {}

EventPump::~EventPump() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->stop = true;
  }
  queue_->ready.notify_one();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

std::shared_ptr<engine::EventSink> EventPump::sink(std::shared_ptr<EventReceiver> receiver,
                                                   uint32_t choice) {
  return std::make_shared<Sink>(queue_, std::move(receiver), choice);
}

void EventPump::loop(const std::shared_ptr<Queue>& queue) {
  std::vector<Item> items;
  while (true) {
    {
      std::unique_lock lock(queue->mutex);
      queue->ready.wait(lock, [&] { return queue->stop || !queue->items.empty(); });
      if (queue->items.empty()) return;
      items.swap(queue->items);
    }
    for (Item& item : items) item.receiver->handle(item.choice, std::move(item.event));
    items.clear();
  }
}

}  // namespace mlxcel::serve
