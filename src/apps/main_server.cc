// The program `mlxcel-server`: `mlxcel serve` under the name that llama-server's users expect.
#include <string>
#include <vector>

#include "apps/commands.h"
#include "backend/register.h"

int main(int argc, char** argv) {
  mlxcel::backend::register_all();
  return mlxcel::apps::run_server_program(std::vector<std::string>(argv + 1, argv + argc));
}
