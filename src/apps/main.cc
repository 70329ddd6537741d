// The program `mlxcel`.
#include <string>
#include <vector>

#include "apps/commands.h"
#include "backend/register.h"

int main(int argc, char** argv) {
  mlxcel::backend::register_all();
  return mlxcel::apps::run_program(std::vector<std::string>(argv + 1, argv + argc));
}
