# Compiler flags shared by every target: warnings, baseline instruction set, sanitizers, ccache, linker.
add_library(mlxcel_flags INTERFACE)
target_compile_options(mlxcel_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor
                                              -ffunction-sections -fdata-sections -g1)
target_include_directories(mlxcel_flags INTERFACE "${CMAKE_SOURCE_DIR}/src")
target_link_options(mlxcel_flags INTERFACE -Wl,--gc-sections)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns about lengths that cannot occur inside std::string's operator+ (GCC bug 105651).
  target_compile_options(mlxcel_flags INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # The standard library's own stable_sort calls what it marks as deprecated, and clang points at our line; g++ keeps the warning.
  target_compile_options(mlxcel_flags INTERFACE -Wno-deprecated-declarations)
endif()
if(MLXCEL_WERROR)
  target_compile_options(mlxcel_flags INTERFACE -Werror)
endif()

# One baseline for the whole program (ADR 7); faster code is chosen at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(mlxcel_flags INTERFACE -march=x86-64-v2)
endif()
# Contraction would let two compilers round the same expression differently.
target_compile_options(mlxcel_flags INTERFACE -ffp-contract=off)

if(MLXCEL_SANITIZE STREQUAL "address")
  target_compile_options(mlxcel_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
                                                -fno-omit-frame-pointer)
  target_link_options(mlxcel_flags INTERFACE -fsanitize=address,undefined)
elseif(MLXCEL_SANITIZE STREQUAL "thread")
  target_compile_options(mlxcel_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(mlxcel_flags INTERFACE -fsanitize=thread)
endif()

if(MLXCEL_FUZZ)
  # Without coverage of the libraries themselves libFuzzer would search blindly.
  target_compile_options(mlxcel_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(MLXCEL_CCACHE ccache)
if(MLXCEL_CCACHE)
  # Paths relative to the source tree, so that all build folders and checkouts share hits.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  ${MLXCEL_CCACHE})
endif()
find_program(MLXCEL_MOLD mold)
if(MLXCEL_MOLD)
  # Debian 12's mold lays out some programs so that the loader cannot protect their relocated data,
  # and they do not start ("cannot apply additional memory protection after relocation").
  target_link_options(mlxcel_flags INTERFACE -fuse-ld=mold -Wl,-z,norelro)
endif()

# mlxcel_layer(<folder> SOURCES ... DEPS ... LIBS ...): the static library of one source folder.
function(mlxcel_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND mlxcel_)
  add_library(mlxcel_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(mlxcel_${name} PUBLIC mlxcel_flags ${ARG_DEPS} PRIVATE ${ARG_LIBS})
endfunction()

# Programs of tests that feed hostile input; `make test` also builds and runs these under AddressSanitizer.
add_custom_target(hostile_tests)

# mlxcel_test(<name> LABEL <label> SOURCES ... DEPS ...): one GoogleTest program.
function(mlxcel_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND mlxcel_)
  target_link_libraries(${name} PRIVATE mlxcel_flags ${ARG_DEPS} ${ARG_LIBS} mlxcel_testing GTest::gmock
                                        GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/unit/(base|tensor|io|text|serve|http)$")
    list(APPEND ARG_LABEL hostile)
    add_dependencies(hostile_tests ${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 600
                       ENVIRONMENT "MLXCEL_TEST_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()
