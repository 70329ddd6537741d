# The commit lives in a library of its own, written at build time and only when it changed.
set(MLXCEL_COMMIT "" CACHE STRING "Commit that --version prints; empty: asked from git at build time")
set(commit_source "${CMAKE_BINARY_DIR}/generated/commit.cc")
add_custom_target(mlxcel_commit
  COMMAND ${CMAKE_COMMAND} -D "SOURCE_DIR=${CMAKE_SOURCE_DIR}" -D "OUTPUT=${commit_source}" -D "COMMIT=${MLXCEL_COMMIT}"
          -P "${CMAKE_SOURCE_DIR}/cmake/write_commit.cmake"
  BYPRODUCTS "${commit_source}"
  COMMENT "Reading the commit"
  VERBATIM)
add_library(mlxcel_version STATIC "${commit_source}")
add_dependencies(mlxcel_version mlxcel_commit)
target_link_libraries(mlxcel_version PUBLIC mlxcel_flags)
