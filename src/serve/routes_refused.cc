// Routes of other builds and of llama-server that answer why they do nothing here.
#include "serve/routes_admin.h"
#include "serve/wire/error.h"

namespace mlxcel::serve {
namespace {

struct Refused {
  const char* method;
  std::vector<const char*> paths;
  const char* why;
};

constexpr const char* kEmbeddings =
    "embeddings need --embedding-model or an embedding checkpoint, which this build cannot load";
constexpr const char* kRerank =
    "reranking needs --reranker-model or a reranker checkpoint, which this build cannot load";
constexpr const char* kTranscribe =
    "The current model does not support audio input. It needs a speech model, which this build "
    "cannot load";
constexpr const char* kSpeech = "speech needs a text-to-speech model, which this build cannot load";
constexpr const char* kImages = "images need --image-model, which this build does not have";
constexpr const char* kLora = "adapters need --lora, which this build does not have";
constexpr const char* kRouter =
    "loading and unloading models needs router mode (--models-dir), which this build does not have";
constexpr const char* kSlots =
    "saving and restoring slots needs --slot-save-path, which this build does not have";
constexpr const char* kWebUi = "the WebUI needs --webui, which this build does not have";

const std::vector<Refused>& refused() {
  static const std::vector<Refused> kRoutes = {
      {"POST", {"/embedding", "/embeddings", "/v1/embeddings"}, kEmbeddings},
      {"POST", {"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"}, kRerank},
      {"POST", {"/v1/audio/transcriptions", "/audio/transcriptions"}, kTranscribe},
      {"POST", {"/v1/audio/translations", "/audio/translations"}, kTranscribe},
      {"POST", {"/v1/audio/speech", "/audio/speech"}, kSpeech},
      {"GET",
       {"/v1/realtime"},
       "duplex speech needs a VoiceChat model, which this build cannot load"},
      {"POST", {"/v1/images/generations", "/images/generations"}, kImages},
      {"POST", {"/v1/images/edits", "/images/edits"}, kImages},
      {"GET", {"/lora-adapters"}, kLora},
      {"POST", {"/lora-adapters"}, kLora},
      {"POST", {"/models", "/models/load", "/models/unload"}, kRouter},
      {"DELETE", {"/models"}, kRouter},
      {"GET", {"/models/sse", "/router/stats"}, kRouter},
      {"POST", {"/slots/{id}"}, kSlots},
      {"GET", {"/webui", "/webui/"}, kWebUi},
  };
  return kRoutes;
}

/// {"error": {"message", "type"}}, without a code.
HttpResponse feature_disabled(const char* message) {
  return json_response(
      Json::object({{"error", Json::object({{"message", message}, {"type", "feature_disabled"}})}}),
      403);
}

}  // namespace

void add_refused_routes(Router& router) {
  for (const Refused& route : refused()) {
    for (const char* path : route.paths) {
      router.add(route.method, path, [why = route.why](const std::shared_ptr<Exchange>& exchange) {
        exchange->reply(error_response(not_supported(why)));
      });
    }
  }
  router.add(
      "GET", "/",
      [](const std::shared_ptr<Exchange>& exchange) {
        exchange->reply(error_response(
            not_found("there is no browser interface here; GET /v1/models shows what is served")));
      },
      Router::Auth::Public);
  for (const char* method : {"GET", "POST"}) {
    router.add(method, "/tools", [](const std::shared_ptr<Exchange>& exchange) {
      exchange->reply(feature_disabled("the server never runs tools; clients do"));
    });
    router.add(method, "/cors-proxy", [](const std::shared_ptr<Exchange>& exchange) {
      exchange->reply(feature_disabled("the server fetches nothing for browsers"));
    });
  }
}

}  // namespace mlxcel::serve
